/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a body to lanes: the application's thread issues ops in list order, as far as its acquires
 * and releases allow, and turns the body's relative waits into ordinals.
 */
#include <errno.h>
#include <string.h>

#include "base/status.h"
#include "run/runner.h"

void zero__body_begin(struct zero__runner *run, const struct zero__issuing *now)
{
    const int is_update = now->kind == ZERO__UPDATE_BODY;

    pthread_mutex_lock(&run->lock);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        run->lanes[q].base = run->lanes[q].issued;
        if (is_update)
            run->update_base[q] = run->lanes[q].base;
    }
    pthread_mutex_unlock(&run->lock);
    run->has_updated |= is_update;
    zero__storage_count(run, now);
}

void zero__update_forget(struct zero__runner *run)
{
    run->has_updated = 0;
}

/* Tests: wait `w` of the body is the one to leave out. */
static int is_left_out(const struct zero__runner *run, const struct zero__issuing *now, uint32_t w)
{
    const struct zero__body *b = run->site->programs[0]->bodies;
    uint32_t number = 1 + w;

    if (!run->test_skip_wait || now->kind >= ZERO__N_BODIES)
        return 0;
    for (uint32_t i = 0; i < now->kind; i++)
        number += b[i].n_waits;
    return number == run->test_skip_wait;
}

/* The ordinals that an op of the body waits for. */
static void waits_of(const struct zero__runner *run, const struct zero__issuing *now,
                     const struct zero__op *op, uint64_t waits[ZERO__N_QUEUES])
{
    memset(waits, 0, ZERO__N_QUEUES * sizeof *waits);
    for (uint32_t w = op->first_wait; w < op->first_wait + op->n_waits; w++) {
        const struct zero__wait *x = &now->body->waits[w];
        if (is_left_out(run, now, w) || (x->behind && !run->has_updated))
            continue;
        waits[x->queue] =
            (x->behind ? run->update_base[x->queue] : run->lanes[x->queue].base) + x->ordinal;
    }
}

int zero__lane_issue(struct zero__runner *run, const struct zero__issuing *now, uint32_t index)
{
    const struct zero__op *op = &now->body->ops[index];
    struct zero__lane *l = &run->lanes[op->queue];
    struct zero__slot *s = zero__lane_slot(l, l->issued + 1);
    void *event = s->event;

    if (l->issued - l->done >= l->capacity)
        return zero__fail(-ENOBUFS,
                          "queue %s is full with %u ops in flight: a defect of libzero, "
                          "to be reported with the job's options",
                          zero__queue_name(op->queue), l->capacity);
    *s = (struct zero__slot){.body = now->body,
                             .op = index,
                             .body_kind = now->kind,
                             .epoch = now->epoch,
                             .micro = now->micro,
                             .ended = now->ended,
                             .event = event};
    s->place = l->kind->collective ? ++run->n_placed : 0;
    waits_of(run, now, op, s->waits);
    s->mark = zero__track_mark(run);
    if (op->kind == ZERO__REDUCE || op->kind == ZERO__ACCUMULATE || op->flags & ZERO__OP_SUMS) {
        /* A boundary's reduction works on the accumulators themselves. */
        s->accumulate = run->site->recipe.accum > 1 && now->contributed[op->unit] &&
                        (op->kind != ZERO__REDUCE || !run->site->recipe.boundary);
    }
    l->issued++;
    if (l->kind->server != ZERO__NO_SERVER)
        atomic_store(&run->servers[l->kind->server].waits, 1);
    return 0;
}

int zero__ops_issue(struct zero__runner *run, const struct zero__issuing *now, uint32_t *pc)
{
    const struct zero__body *b = now->body;
    int err = 0;

    pthread_mutex_lock(&run->lock);
    for (; *pc < b->n_ops && b->ops[*pc].kind != ZERO__COMPUTE; ++*pc) {
        if (b->ops[*pc].queue == ZERO__Q_NONE)
            continue;
        err = zero__lane_issue(run, now, *pc);
        if (err)
            break;
    }
    pthread_mutex_unlock(&run->lock);
    zero__servers_wake(run);
    return err;
}

int zero__op_run(struct zero__runner *run, const struct zero__issuing *now, uint32_t op)
{
    pthread_mutex_lock(&run->lock);
    int err = zero__lane_issue(run, now, op);
    pthread_mutex_unlock(&run->lock);
    zero__servers_wake(run);
    return err ? err : zero__lanes_drain(run, 0, NULL);
}

int zero__op_await(struct zero__runner *run, const struct zero__issuing *now,
                   const struct zero__op *op, uint64_t *waited_ns)
{
    uint64_t waits[ZERO__N_QUEUES];

    waits_of(run, now, op, waits);
    return zero__lanes_wait(run, waits, waited_ns);
}
