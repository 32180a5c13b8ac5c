/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When ops ran: a ring that the thread which notes an op's end writes to, with the lock held, and
 * that zero_op_times() empties. An op in flight is recorded when it ends. What each op of the
 * program took when it ran last is kept beside the ring, for the forecast.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

/* Room for two steps and some evaluations, within bounds. */
int zero__times_size(struct zero__runner *run)
{
    const struct zero__body *b = run->site->programs[0]->bodies;
    struct zero__costs costs;
    int err = zero__costs_make(run->site->programs[0], run->site->programs[1], &costs);
    if (err)
        return err;
    zero__costs_free(&run->times.costs);
    run->times.costs = costs;
    run->timed_work = (struct zero__work){.unknown = 0}; /* of another program */
    const uint64_t want = 2 * ((uint64_t)b[ZERO__MICRO].n_ops * (run->site->recipe.accum - 1) +
                               b[ZERO__LAST].n_ops + b[ZERO__UPDATE_BODY].n_ops) +
                          64 * (uint64_t)b[ZERO__EVALUATION].n_ops;
    uint64_t n = 64;

    while (n < want && n < 1 << 16)
        n *= 2;
    if (n <= run->times.capacity)
        return 0;
    struct zero_op_time *ring = calloc(n, sizeof *ring);
    if (!ring)
        return zero__fail(-ENOMEM, "no memory for the times of %u ops", (unsigned)n);
    free(run->times.ring);
    run->times.ring = ring;
    run->times.capacity = n;
    run->times.first = run->times.end = 0;
    return 0;
}

void zero__times_free(struct zero__runner *run)
{
    zero__costs_free(&run->times.costs);
    free(run->times.ring);
    run->times.ring = NULL;
}

void zero__times_leave(struct zero__runner *run)
{
    run->times.left_ns = zero__now_ns();
}

void zero__times_begin(struct zero__runner *run)
{
    pthread_mutex_lock(&run->lock);
    run->work = (struct zero__work){.unknown = 0};
    pthread_mutex_unlock(&run->lock);
}

void zero__times_unknown(struct zero__runner *run)
{
    run->work.unknown = 1;
}

struct zero__work zero__times_work(struct zero__runner *run)
{
    pthread_mutex_lock(&run->lock);
    const struct zero__work work = run->work;
    pthread_mutex_unlock(&run->lock);
    return work;
}

struct zero__work zero__times_last(const struct zero__runner *run)
{
    return run->timed_work;
}

void zero__times_costs(struct zero__runner *run, struct zero__costs *c)
{
    pthread_mutex_lock(&run->lock); /* an op may end just now */
    zero__costs_copy(run->site->programs[0], &run->times.costs, c);
    pthread_mutex_unlock(&run->lock);
}

/*
 * The op takes as long in a full step: not so in the last micro-batch of a step that had fewer than
 * ZERO_ACCUM, which may find no sums to add to.
 */
static int is_typical(const struct zero__runner *run, uint32_t body_kind, uint32_t micro)
{
    return body_kind != ZERO__LAST || micro == run->site->recipe.accum;
}

void zero__times_come(struct zero__runner *run, const struct zero__issuing *now,
                      const struct zero__op *op)
{
    const double gap_s = (double)(zero__now_ns() - run->times.left_ns) / 1e9;

    if (!op)
        run->times.end_s = gap_s;
    else if (is_typical(run, now->kind, now->micro))
        run->times.costs.gap_s[now->kind][op - now->body->ops] = gap_s;
}

void zero__times_keep(struct zero__runner *run)
{
    pthread_mutex_lock(&run->lock); /* kernels of the update are done, and noted */
    if (!run->work.unknown) {
        run->timed_work = run->work;
        run->times.costs.end_s = run->times.end_s;
    }
    pthread_mutex_unlock(&run->lock);
}

/* Notes what an op took; a queue serves its ops one behind the other. */
static void cost_note(struct zero__runner *run, const struct zero__slot *s,
                      const struct zero__op *op, int64_t end_ns)
{
    struct zero__op_times *t = &run->times;
    const int64_t last_ns = t->end_ns[op->queue];

    t->end_ns[op->queue] = end_ns;
    if (!is_typical(run, s->body_kind, s->micro))
        return;
    t->costs.op_s[s->body_kind][s->op] =
        (double)(end_ns - (s->start_ns > last_ns ? s->start_ns : last_ns)) / 1e9;
    t->costs.streamed |= op->kind == ZERO__COMPUTE && s->on_stream;
}

/* Of ops that are started one behind the other, what counts is when one of them ran. */
static uint64_t busy_ns(const struct zero__slot *s, int64_t end_ns, int64_t *last_end_ns)
{
    int64_t from = s->start_ns > *last_end_ns ? s->start_ns : *last_end_ns;

    *last_end_ns = end_ns;
    return end_ns > from ? (uint64_t)(end_ns - from) : 0;
}

static void work_note(struct zero__runner *run, const struct zero__slot *s,
                      const struct zero__op *op, int64_t end_ns)
{
    struct zero__work *w = &run->work;

    if (op->kind == ZERO__COMPUTE && s->body_kind != ZERO__EVALUATION) {
        w->compute_ns += busy_ns(s, end_ns, &w->compute_end_ns);
    } else if (s->body_kind == ZERO__UPDATE_BODY
                   ? op->queue == ZERO__Q_CPU || op->queue == ZERO__Q_HOST
                   : op->flags & ZERO__OP_TILE &&
                         (op->queue == ZERO__Q_UPDATE || op->queue == ZERO__Q_HOST)) {
        w->update_ns += busy_ns(s, end_ns, &w->update_end_ns);
    }
}

void zero__times_note(struct zero__runner *run, const struct zero__slot *s, int64_t end_ns)
{
    struct zero__op_times *t = &run->times;

    if (!s->body || s->body_kind >= ZERO__N_BODIES)
        return; /* of the runtime itself, or of a deviation */
    const struct zero__op *op = &s->body->ops[s->op];
    uint64_t bytes = 0;
    work_note(run, s, op, end_ns);
    cost_note(run, s, op, end_ns);
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++)
        if (s->body->accesses[a].write)
            bytes += s->body->accesses[a].bytes;
    t->ring[t->end++ & (t->capacity - 1)] = (struct zero_op_time){
        .kind = zero__op_name(op->kind),
        .unit = op->unit == ZERO_NONE ? "" : run->site->model.units[op->unit].name,
        .queue = zero__queue_name(op->queue),
        .bytes = bytes,
        .start_ns = (uint64_t)s->start_ns,
        .end_ns = (uint64_t)end_ns,
        .body = s->body_kind,
        .index = s->op};
    if (t->end - t->first > t->capacity)
        t->first = t->end - t->capacity;
}

int zero__times_take(struct zero__runner *run, struct zero_op_time *op)
{
    struct zero__op_times *t = &run->times;

    pthread_mutex_lock(&run->lock);
    const int some = t->first < t->end;
    if (some)
        *op = t->ring[t->first++ & (t->capacity - 1)];
    pthread_mutex_unlock(&run->lock);
    return some;
}
