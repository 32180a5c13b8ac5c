/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes: rings of issued ops with three counters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

void zero__lane_slots_free(struct zero__lane *l)
{
    for (uint32_t i = 0; i < l->capacity; i++)
        if (l->slots[i].event)
            l->ops->event_destroy(l->dev, l->slots[i].event);
    free(l->slots);
    l->slots = NULL;
    l->capacity = 0;
}

static int lane_size(struct zero__runner *run, uint32_t q, uint32_t want)
{
    struct zero__lane *l = &run->lanes[q], wide = {.ops = l->ops, .dev = l->dev};
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
    for (uint32_t i = 0; i < n && !err && l->kind->by_event && l->dev; i++)
        err = l->ops->event_create(l->dev, &wide.slots[i].event);
    if (err) {
        zero__lane_slots_free(&wide);
        return err;
    }
    zero__lane_slots_free(l);
    l->slots = wide.slots;
    l->capacity = wide.capacity;
    return 0;
}

int zero__lanes_size(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        uint32_t most = 0;
        for (uint32_t i = 0; i < ZERO__N_BODIES; i++)
            if (run->site->programs[0]->bodies[i].in_queue[q] > most)
                most = run->site->programs[0]->bodies[i].in_queue[q];
        /* An update's publications may still run when the next body is issued. */
        int err = lane_size(run, q, 2 * most + 8);
        if (err)
            return err;
    }
    return zero__track_size(run);
}

void zero__lane_done(struct zero__runner *run, uint32_t queue, int64_t now_ns)
{
    struct zero__lane *l = &run->lanes[queue];
    const struct zero__slot *s = zero__lane_slot(l, l->done + 1);

    zero__times_note(run, s, now_ns);
    zero__flight_note(run, s, queue, l->done + 1, now_ns);
    l->done++;
}

void zero__lane_settle(struct zero__runner *run, uint32_t queue)
{
    struct zero__lane *l = &run->lanes[queue];

    while (l->done < l->started && !zero__lane_slot(l, l->done + 1)->pending)
        zero__lane_done(run, queue, zero__now_ns());
}

static int is_ready(const struct zero__runner *run, uint32_t queue, const struct zero__slot *s)
{
    (void)queue;
    return zero__lanes_reached(run, s->waits);
}

static int follow(struct zero__runner *run, uint32_t queue, const struct zero__slot *s)
{
    (void)run, (void)queue, (void)s;
    return 0;
}

static int look(struct zero__runner *run, bool *heard)
{
    (void)heard;
    return zero__lanes_poll(run);
}

static void arm(struct zero__runner *run)
{
    (void)run; /* an op starts when all that it waits for is done */
}

const struct zero__ordering zero__by_host = {
    .is_ready = is_ready, .follow = follow, .look = look, .arm = arm};

int zero__lanes_poll(struct zero__runner *run)
{
    int n = 0, all = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES && n >= 0; q++) {
        n = run->lanes[q].kind->poll ? run->lanes[q].kind->poll(run, q) : 0;
        all += n;
    }
    return n < 0 ? n : all;
}

int zero__op_begin(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    int err = s->follows ? 0 : run->order->follow(run, queue, s);

    if (err)
        return err;
    s->follows = 1; /* and not once more where there is no room now */
    s->start_ns = zero__now_ns();
    s->armed = !run->order->cascades;
    zero__track_start(run, queue, s, run->lanes[queue].started + 1);
    return 0;
}
