/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: rings of issued ops with three counters, and waiting for them. The application's thread
 * issues and waits; the progress thread starts and finishes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "machine/clock.h"
#include "machine/thread.h"

#define LOOK_NS (ZERO_SECOND / 4) /* who waits looks whether the job has failed, see create.c */

struct slot *zero__lane_slot(struct lane *l, uint64_t ordinal)
{
    return &l->slots[ordinal & (l->capacity - 1)];
}

const char *zero__slot_subject(const struct zero_runtime *rt, const struct slot *s)
{
    uint32_t unit = s->body ? s->body->ops[s->op].unit : ZERO_NONE;

    return unit == ZERO_NONE ? "the runtime" : rt->model.units[unit].name;
}

void zero__lanes_create(struct zero_runtime *rt)
{
    pthread_mutex_init(&rt->lock, NULL);
    zero__cond_init(&rt->moved);
}

static void slots_free(struct lane *l)
{
    for (uint32_t i = 0; i < l->capacity; i++)
        if (l->slots[i].event)
            l->ops->event_destroy(l->dev, l->slots[i].event);
    free(l->slots);
    l->slots = NULL;
    l->capacity = 0;
}

void zero__lanes_free(struct zero_runtime *rt)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct lane *l = &rt->lanes[q];
        slots_free(l);
        if (l->stream)
            l->ops->stream_destroy(l->dev, l->stream);
        l->stream = NULL;
    }
}

void zero__lanes_end(struct zero_runtime *rt)
{
    pthread_cond_destroy(&rt->moved);
    pthread_mutex_destroy(&rt->lock);
}

static int lane_size(struct zero_runtime *rt, uint32_t q, uint32_t want)
{
    struct lane *l = &rt->lanes[q], wide = {.ops = l->ops, .dev = l->dev};
    uint32_t n = 64;
    int err = 0;

    while (n < want)
        n *= 2;
    if (n <= l->capacity)
        return 0;
    wide.slots = calloc(n, sizeof *wide.slots);
    if (!wide.slots)
        return zero__fail(-ENOMEM, "no memory for a queue of %u ops", n);
    wide.capacity = n;
    for (uint32_t i = 0; i < n && !err && (l->stream || q == ZERO__Q_COMPUTE); i++)
        err = l->ops->event_create(l->dev, &wide.slots[i].event);
    if (err) {
        slots_free(&wide);
        return err;
    }
    slots_free(l);
    l->slots = wide.slots;
    l->capacity = wide.capacity;
    return 0;
}

int zero__lanes_size(struct zero_runtime *rt)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        uint32_t most = 0;
        for (uint32_t i = 0; i < ZERO__N_BODIES; i++)
            if (rt->programs[0]->bodies[i].in_queue[q] > most)
                most = rt->programs[0]->bodies[i].in_queue[q];
        /* An update's publications may still run when the next body is issued. */
        int err = lane_size(rt, q, 2 * most + 8);
        if (err)
            return err;
    }
    return zero__track_size(rt);
}

void zero__lanes_mark(struct zero_runtime *rt)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        rt->lanes[q].base = rt->lanes[q].issued;
}

/* Tests: is this the wait to leave out? w: in the body. */
static int is_left_out(const struct zero_runtime *rt, uint32_t w)
{
    const struct zero__body *b = rt->programs[0]->bodies;
    uint32_t number = 1 + w;

    if (!rt->test_skip_wait || rt->body_kind >= ZERO__N_BODIES)
        return 0;
    for (uint32_t i = 0; i < rt->body_kind; i++)
        number += b[i].n_waits;
    return number == rt->test_skip_wait;
}

void zero__waits_of(const struct zero_runtime *rt, const struct zero__op *op,
                    uint64_t waits[ZERO__N_QUEUES])
{
    memset(waits, 0, ZERO__N_QUEUES * sizeof *waits);
    for (uint32_t w = op->first_wait; w < op->first_wait + op->n_waits; w++) {
        const struct zero__wait *x = &rt->body->waits[w];
        if (is_left_out(rt, w) || (x->behind && !rt->has_updated))
            continue;
        waits[x->queue] =
            (x->behind ? rt->update_base[x->queue] : rt->lanes[x->queue].base) + x->ordinal;
    }
}

int zero__lane_issue(struct zero_runtime *rt, uint32_t index)
{
    const struct zero__op *op = &rt->body->ops[index];
    struct lane *l = &rt->lanes[op->queue];
    struct slot *s = zero__lane_slot(l, l->issued + 1);
    void *event = s->event;

    if (l->issued - l->done >= l->capacity)
        return zero__fail(-ENOBUFS, "queue %s is full with %u ops in flight: a defect of libzero, "
                          "to be reported with the job's options",
                          zero__queue_name(op->queue), l->capacity);
    *s = (struct slot){.body = rt->body, .op = index, .body_kind = rt->body_kind, .event = event};
    s->place = l->comm ? ++rt->n_placed : 0;
    zero__waits_of(rt, op, s->waits);
    s->mark = zero__track_mark(rt);
    if (op->kind == ZERO__REDUCE || op->kind == ZERO__ACCUMULATE || op->flags & ZERO__OP_SUMS) {
        /* A boundary's reduction works on the accumulators themselves. */
        s->accumulate = rt->recipe.accum > 1 && rt->contributed[op->unit] &&
                        (op->kind != ZERO__REDUCE || !rt->recipe.boundary);
    }
    l->issued++;
    if (zero__queue_is_disk(op->queue))
        atomic_store(&rt->storage_waits, 1); /* it is woken with the progress thread */
    return 0;
}

const struct slot *zero__lane_head(struct lane *l)
{
    if (!l->comm || l->done == l->started)
        return NULL;
    const struct slot *s = zero__lane_slot(l, l->done + 1);
    return s->armed ? s : NULL;
}

void zero__lane_done(struct zero_runtime *rt, uint32_t queue, int64_t now_ns)
{
    struct lane *l = &rt->lanes[queue];
    const struct slot *s = zero__lane_slot(l, l->done + 1);

    zero__times_note(rt, s, now_ns);
    zero__flight_note(rt, s, queue, l->done + 1, now_ns);
    l->done++;
}

void zero__lane_settle(struct zero_runtime *rt, uint32_t queue)
{
    struct lane *l = &rt->lanes[queue];

    while (l->done < l->started && !zero__lane_slot(l, l->done + 1)->pending)
        zero__lane_done(rt, queue, zero__now_ns());
}

int zero__lanes_reached(const struct zero_runtime *rt, const uint64_t *ordinals)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (rt->lanes[q].done < ordinals[q])
            return 0;
    return 1;
}

/* Ops that have ended so far, in all queues, and what the disk has moved. */
static uint64_t ended(const struct zero_runtime *rt)
{
    uint64_t n = rt->disk_read + rt->disk_written;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        n += rt->lanes[q].done;
    return n;
}

/* The first queue that is waited for. */
static uint32_t behind(const struct zero_runtime *rt, const uint64_t *ordinals)
{
    uint32_t q = 0;

    while (q < ZERO__N_QUEUES - 1 && rt->lanes[q].done >= ordinals[q])
        q++;
    return q;
}

/* Of an op whose own deadline has said nothing. */
static void late_fail(struct zero_runtime *rt, uint32_t queue)
{
    char why[200];

    snprintf(why, sizeof why,
             "an op in queue %s did not end within %g s (ZERO_TIMEOUT), and nothing says why: look "
             "at the output of all ranks; who is only slow needs a larger ZERO_TIMEOUT",
             zero__queue_name(queue), (double)rt->timeout_ns / 1e9);
    zero__runtime_fail(rt, rt->rank, -ETIMEDOUT, "wait", why);
}

/* An update may take hours; ZERO_TIMEOUT is for something that does not move any more. */
int zero__lanes_wait(struct zero_runtime *rt, const uint64_t *ordinals, uint64_t *waited_ns)
{
    int64_t began = 0, deadline = 0;
    uint64_t seen = 0;
    uint32_t queue;
    struct zero__store_watch watch = {0};
    int late = 0, stuck = 0;

    pthread_mutex_lock(&rt->lock);
    while (!zero__lanes_reached(rt, ordinals) && !zero__runtime_over(rt) && !late && !stuck) {
        if (!began || seen != ended(rt)) {
            began = began ? began : zero__now_ns();
            deadline = zero__deadline_ns(rt->timeout_ns + ZERO__GRACE_NS);
            seen = ended(rt);
        }
        int64_t look = zero__deadline_ns(LOOK_NS), until = look < deadline ? look : deadline;
        late = zero__cond_until(&rt->moved, &rt->lock, until) == ETIMEDOUT && until == deadline &&
               !zero__lanes_reached(rt, ordinals) && seen == ended(rt);
        if (late) { /* later than the op, whose own deadline says more */
            int64_t later = zero__job_patience(rt->job, deadline - ZERO__GRACE_NS);
            later = zero__deadline_after(later, ZERO__GRACE_NS);
            late = later <= deadline;
            deadline = later;
        }
        stuck = zero__store_stuck(rt, &watch);
    }
    queue = behind(rt, ordinals);
    pthread_mutex_unlock(&rt->lock);
    if (began && waited_ns)
        *waited_ns += (uint64_t)(zero__now_ns() - began);
    if (stuck)
        zero__runtime_fail(rt, rt->rank, stuck, "", zero__error_text());
    else if (late)
        late_fail(rt, queue);
    return zero__runtime_error(rt);
}

int zero__lanes_drain(struct zero_runtime *rt, int but_behind, uint64_t *waited_ns)
{
    uint64_t all[ZERO__N_QUEUES];

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        all[q] = but_behind && zero__queue_is_behind(q) ? 0 : rt->lanes[q].issued;
    if (rt->held && !rt->dev_step.on) /* at the end of a runtime: this use will never be over */
        all[ZERO__Q_COMPUTE] = rt->use_ordinal - 1;
    int err = zero__lanes_wait(rt, all, waited_ns);
    zero__track_host(rt, but_behind);
    return err;
}

int zero__lane_run(struct zero_runtime *rt, uint32_t queue, const struct slot *own)
{
    struct lane *l = &rt->lanes[queue];
    uint64_t ordinals[ZERO__N_QUEUES] = {0};

    pthread_mutex_lock(&rt->lock);
    struct slot *s = zero__lane_slot(l, l->issued + 1);
    void *event = s->event;
    *s = *own;
    s->event = event;
    s->place = l->comm ? ++rt->n_placed : 0;
    ordinals[queue] = ++l->issued;
    pthread_mutex_unlock(&rt->lock);
    if (zero__queue_is_disk(queue))
        rt->tiers[ZERO__T_DISK].ops.wake(rt->tiers[ZERO__T_DISK].store);
    else
        zero__progress_wake(rt);
    return zero__lanes_wait(rt, ordinals, NULL);
}
