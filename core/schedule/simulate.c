/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock goes from one end of an op to the next. Each queue serves its ops one after the other,
 * also where the engine has several of them under way, which together are no faster. Reads and
 * writes share the disk as they did when it was measured: alone each has its own speed, beside each
 * other each has half of what both had together.
 */
#include "schedule/simulate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define STEPS 3     /* what the first one finds is not what a step leaves behind */
#define LEAST_RATE 1 /* bytes a second; a disk that is slower than that is of unknown speed */

struct item {
    const struct zero__body *b;
    uint32_t op, body, first; /* first: of its step's micro-batches, with no sums before it */
    uint64_t waits[ZERO__N_QUEUES];
};

struct queue {
    struct item *items; /* from ordinal `first` on: what was there before is done */
    uint64_t first, issued, done, base, update_base;
    int runs;
    double left; /* of the op that runs: seconds, or bytes of the disk */
};

struct run {
    const struct zero__program *p;
    const struct zero__recipe *r;
    const struct zero__costs *c;
    struct queue q[ZERO__N_QUEUES];
    double now;
    int has_updated, has_disk; /* has_disk: of a known speed */
};

/* What is no time takes none. */
static double seconds_of(double s)
{
    return isfinite(s) && s > 0 ? s : 0;
}

static int is_rate(double x)
{
    return isfinite(x) && x >= LEAST_RATE;
}

static double bytes_of(const struct item *x)
{
    const struct zero__op *op = &x->b->ops[x->op];

    return op->flags & ZERO__OP_SUMS && x->first ? 0 : (double)zero__op_disk_bytes(x->b, op);
}

/* Of the op at the head of a queue: seconds, or bytes. */
static double work_of(const struct run *x, uint32_t q, const struct item *i)
{
    const struct zero__op *op = &i->b->ops[i->op];

    if (zero__queue_is_disk(q))
        return x->has_disk ? bytes_of(i) : 0;
    return op->flags & ZERO__OP_SUMS && i->first ? 0 : seconds_of(x->c->op_s[i->body][i->op]);
}

/* What of an op's work is done in a second. */
static double rate_of(const struct run *x, uint32_t q)
{
    if (!zero__queue_is_disk(q))
        return 1;
    if (x->q[ZERO__Q_FETCH].runs && x->q[ZERO__Q_WRITEBACK].runs)
        return x->c->speeds.both / 2;
    return q == ZERO__Q_FETCH ? x->c->speeds.read : x->c->speeds.write;
}

static int is_over(const struct run *x, const uint64_t *waits)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (x->q[q].done < waits[q])
            return 0;
    return 1;
}

static struct item *item_at(const struct queue *q, uint64_t ordinal)
{
    return &q->items[ordinal - q->first];
}

static void op_end(struct queue *q)
{
    q->runs = 0;
    q->left = 0;
    q->done++;
}

/* Starts what can start; what takes no time ends at once, and may let others start. */
static void ops_start(struct run *x)
{
    for (int again = 1; again;) {
        again = 0;
        for (uint32_t k = 0; k < ZERO__N_QUEUES; k++) {
            struct queue *q = &x->q[k];
            if (q->runs || q->done == q->issued || !is_over(x, item_at(q, q->done)->waits))
                continue;
            q->runs = 1;
            q->left = work_of(x, k, item_at(q, q->done));
            if (q->left <= 0) {
                op_end(q);
                again = 1;
            }
        }
    }
}

/* To the next end of an op, or by `most` seconds if that is less. */
static double clock_go(struct run *x, double most)
{
    double least = most;
    uint32_t first = ZERO__N_QUEUES;

    for (uint32_t k = 0; k < ZERO__N_QUEUES; k++)
        if (x->q[k].runs && x->q[k].left / rate_of(x, k) < least) {
            least = x->q[k].left / rate_of(x, k);
            first = k;
        }
    if (!isfinite(least))
        return -1; /* nothing runs */
    double rates[ZERO__N_QUEUES];
    for (uint32_t k = 0; k < ZERO__N_QUEUES; k++)
        rates[k] = rate_of(x, k);
    for (uint32_t k = 0; k < ZERO__N_QUEUES; k++)
        if (x->q[k].runs)
            x->q[k].left = fmax(x->q[k].left - least * rates[k], 0);
    x->now += least;
    if (first < ZERO__N_QUEUES)
        op_end(&x->q[first]);
    ops_start(x);
    return least;
}

/* The application does something else. */
static void idle(struct run *x, double seconds)
{
    while (seconds > 0)
        seconds -= clock_go(x, seconds);
}

static int await(struct run *x, const uint64_t *waits)
{
    while (!is_over(x, waits))
        if (clock_go(x, INFINITY) < 0) /* no pass makes such programs */
            return zero__fail(-EINVAL, "a step program waits for itself");
    return 0;
}

static void op_issue(struct run *x, uint32_t body, uint32_t first, uint32_t i)
{
    const struct zero__body *b = &x->p->bodies[body];
    const struct zero__op *op = &b->ops[i];
    struct queue *q = &x->q[op->queue];
    struct item *item = item_at(q, q->issued++);

    *item = (struct item){.b = b, .op = i, .body = body, .first = first};
    for (uint32_t w = op->first_wait; w < op->first_wait + op->n_waits; w++) {
        const struct zero__wait *y = &b->waits[w];
        if (!y->behind || x->has_updated)
            item->waits[y->queue] =
                (y->behind ? x->q[y->queue].update_base : x->q[y->queue].base) + y->ordinal;
    }
}

/* All that was issued, but for what goes on behind an update; places of what is done are free. */
static int settle(struct run *x, int is_update)
{
    uint64_t all[ZERO__N_QUEUES];

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        all[q] = is_update && zero__queue_is_behind(q) ? 0 : x->q[q].issued;
    int err = await(x, all);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (x->q[q].done == x->q[q].issued)
            x->q[q].first = x->q[q].issued;
    return err;
}

static int body_run(struct run *x, uint32_t body, uint32_t first)
{
    const struct zero__body *b = &x->p->bodies[body];
    struct queue *compute = &x->q[ZERO__Q_COMPUTE];
    int err = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        x->q[q].base = x->q[q].issued;
        if (body == ZERO__UPDATE_BODY)
            x->q[q].update_base = x->q[q].base;
    }
    x->has_updated |= body == ZERO__UPDATE_BODY;
    for (uint32_t i = 0; i < b->n_ops && !err; i++) {
        if (b->ops[i].queue == ZERO__Q_NONE)
            continue;
        if (b->ops[i].kind == ZERO__COMPUTE) {
            ops_start(x);
            idle(x, seconds_of(x->c->gap_s[body][i]));
        }
        op_issue(x, body, first, i);
        if (b->ops[i].kind != ZERO__COMPUTE)
            continue;
        uint64_t own[ZERO__N_QUEUES] = {0};
        err = await(x, item_at(compute, compute->issued - 1)->waits);
        ops_start(x);
        own[ZERO__Q_COMPUTE] = x->c->streamed ? 0 : compute->issued;
        err = err ? err : await(x, own);
    }
    ops_start(x);
    return err ? err : settle(x, body == ZERO__UPDATE_BODY);
}

static int step_run(struct run *x, struct zero__simulated *s)
{
    const double began = x->now;
    int err = 0;

    for (uint32_t m = 0; m < x->r->accum && !err; m++)
        err = body_run(x, m + 1 < x->r->accum ? ZERO__MICRO : ZERO__LAST, m == 0);
    s->passes_s = x->now - began;
    idle(x, seconds_of(x->c->end_s));
    if (!err)
        err = body_run(x, ZERO__UPDATE_BODY, 0);
    s->step_s = x->now - began;
    s->update_s = s->step_s - s->passes_s;
    return err;
}

int zero__simulate(const struct zero__program *p, const struct zero__recipe *r,
                   const struct zero__costs *c, struct zero__simulated *s)
{
    struct run x = {.p = p, .r = r, .c = c,
                    .has_disk = is_rate(c->speeds.read) && is_rate(c->speeds.write) &&
                                is_rate(c->speeds.both)};
    struct zero__simulated got = {0};
    int err = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++) {
        const uint32_t micro = p->bodies[ZERO__MICRO].in_queue[q];
        const uint32_t last = p->bodies[ZERO__LAST].in_queue[q];
        /* A body, and what goes on behind the update before it. */
        uint64_t n = (uint64_t)p->bodies[ZERO__UPDATE_BODY].in_queue[q] +
                     (micro > last ? micro : last);
        x.q[q].items = malloc((n + 1) * sizeof *x.q[q].items);
        if (!x.q[q].items)
            err = zero__fail(-ENOMEM, "no memory to simulate a step");
    }
    for (uint32_t i = 0; i < STEPS && !err; i++)
        err = step_run(&x, &got);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        free(x.q[q].items);
    if (!err)
        *s = got;
    return err;
}

int zero__costs_make(const struct zero__program *p, const struct zero__program *other,
                     struct zero__costs *c)
{
    *c = (struct zero__costs){.end_s = 0};
    for (uint32_t i = 0; i < ZERO__N_BODIES; i++) {
        size_t n = p->bodies[i].n_ops + 1;
        if (other && other->bodies[i].n_ops >= n)
            n = other->bodies[i].n_ops + 1;
        c->op_s[i] = calloc(n, sizeof(double));
        c->gap_s[i] = calloc(n, sizeof(double));
        if (!c->op_s[i] || !c->gap_s[i]) {
            zero__costs_free(c);
            return zero__fail(-ENOMEM, "no memory for what the ops of a step take");
        }
    }
    return 0;
}

void zero__costs_copy(const struct zero__program *p, const struct zero__costs *from,
                      struct zero__costs *to)
{
    struct zero__costs c = *from;

    for (uint32_t i = 0; i < ZERO__N_BODIES; i++) {
        size_t bytes = p->bodies[i].n_ops * sizeof(double);
        c.op_s[i] = memcpy(to->op_s[i], from->op_s[i], bytes);
        c.gap_s[i] = memcpy(to->gap_s[i], from->gap_s[i], bytes);
    }
    *to = c;
}

void zero__costs_free(struct zero__costs *c)
{
    for (uint32_t i = 0; i < ZERO__N_BODIES; i++) {
        free(c->op_s[i]);
        free(c->gap_s[i]);
        c->op_s[i] = c->gap_s[i] = NULL;
    }
}
