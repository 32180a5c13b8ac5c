/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops that are ordered in streams, where the transport takes streams. Every lane that is a stream
 * of the device runs ahead of the host: an op is put on its stream as soon as everything that it
 * waits for is done or on a stream itself, and waits there for the events of the latter.
 *
 * Collectives are posted in the order of their places, over both lanes: streams of several
 * communicators share the device, and ranks that filled them in different orders could wait for
 * each other for ever.
 *
 * A stream goes on when a collective has failed or was given up. So updates, which nothing undoes,
 * start only when the host has seen done what they wait for, and no failure; and an op that a
 * stream has reached counts as done only if no failure is known behind it.
 */
#include <errno.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

int zero__streams_create(struct zero__runner *run)
{
    const struct zero__site *site = run->site;
    int err = 0;

    /* Collectives by way of host memory have no stream: the relay posts the pieces at hand. */
    if (!(site->caps.flags & ZERO_COMM_STREAM) || !(site->caps.mem & site->device_mem))
        return 0;
    run->order = &zero__by_streams;
    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++) {
        struct zero__lane *l = &run->lanes[q];
        if (!l->kind->collective)
            continue;
        l->kind = &zero__kind_transport_streams;
        err = site->dev_ops.stream_create(site->dev, zero__queue_name(q), &l->stream);
    }
    return err;
}

/* An event tells of all ops of the lane up to this one. */
static int is_recorded(const struct zero__runner *run, uint32_t q, uint64_t ordinal)
{
    const struct zero__lane *l = &run->lanes[q];

    if (l->dev != run->site->dev) /* the device cannot wait for the host's */
        return 0;
    if (l->kind->server != ZERO__NO_SERVER)
        return l->kind->by_event && ordinal <= l->started;
    for (uint64_t o = l->done + 1; o <= ordinal; o++) {
        const struct zero__slot *s = zero__lane_slot(l, o);
        if (!s->released || !s->on_stream)
            return 0;
    }
    return 1;
}

/* On its stream it would run whatever has become of a collective before it. */
static int is_final(const struct zero__slot *s)
{
    return s->body && s->body->ops[s->op].kind == ZERO__UPDATE;
}

static int is_ready(const struct zero__runner *run, uint32_t queue, const struct zero__slot *s)
{
    if (s->place && s->place != run->n_begun + 1)
        return 0;
    if (!run->lanes[queue].stream || is_final(s))
        return zero__lanes_reached(run, s->waits);
    for (uint32_t w = 0; w < ZERO__N_QUEUES; w++)
        if (run->lanes[w].done < s->waits[w] && !is_recorded(run, w, s->waits[w]))
            return 0;
    return 1;
}

/* Uses of units may stand on several streams of the application; other lanes are one each. */
static int follow(struct zero__runner *run, uint32_t queue, const struct zero__slot *s)
{
    const struct zero__site *site = run->site;
    void *stream = run->lanes[queue].stream;

    for (uint32_t w = 0; w < ZERO__N_QUEUES && stream; w++) {
        const struct zero__lane *l = &run->lanes[w];
        if (l->done >= s->waits[w] || l->stream == stream)
            continue;
        for (uint64_t o = w == ZERO__Q_COMPUTE ? l->done + 1 : s->waits[w]; o <= s->waits[w]; o++) {
            int err = site->dev_ops.stream_wait(site->dev, stream, zero__lane_slot(l, o)->event);
            if (err)
                return err;
        }
    }
    return 0;
}

static void arm(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        const struct zero__lane *l = &run->lanes[q];
        if (!l->stream || l->done == l->started)
            continue;
        struct zero__slot *s = zero__lane_slot(l, l->done + 1);
        if (s->armed || !zero__lanes_reached(run, s->waits))
            continue;
        s->armed = 1;
        s->start_ns = zero__now_ns();
        s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
    }
}

/* The first failure of a communicator whose collectives are in flight; lock held. */
static int streams_error(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        int err = l->kind->collective ? run->site->comm_ops.error(l->comm) : 0;
        if (!err)
            continue;
        zero__unsaid(err, run->site->comm_name);
        const struct zero__slot *s = l->done < l->started ? zero__lane_slot(l, l->done + 1) : NULL;
        const struct zero__op *op = s && s->body ? &s->body->ops[s->op] : NULL;
        if (!op || err == -ECANCELED)
            return err;
        if (err == -EPROTO)
            return zero__collective_failed(run, s, err);
        return zero__while(err, "%s of %s", zero__op_name(op->kind), zero__slot_subject(run, s));
    }
    return 0;
}

/* Errors are asked for after streams were polled; if there is one, nothing that ended counts. */
static int look(struct zero__runner *run, bool *heard)
{
    uint64_t before[ZERO__N_QUEUES], after[ZERO__N_QUEUES], noted = run->flight.end;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        before[q] = run->lanes[q].done;
    int n = zero__lanes_poll(run);
    if (n < 0)
        return n;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        after[q] = run->lanes[q].done;
        run->lanes[q].done = before[q];
    }
    int err = streams_error(run);
    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++)
        run->lanes[q].done = after[q];
    *heard = err != 0;
    if (err) { /* records that the rolled-back ops have overwritten are gone */
        run->flight.lost = run->flight.end - noted;
        run->flight.end = noted;
    }
    return err ? err : n;
}

const struct zero__ordering zero__by_streams = {
    .is_ready = is_ready, .follow = follow, .look = look, .arm = arm, .cascades = 1};
