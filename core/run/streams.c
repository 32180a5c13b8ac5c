/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams have reached, of whatever transport; and transports that take streams. There every
 * lane that is a stream of the device runs ahead of the host: an op is put on its stream as soon as
 * whatever it waits for is done or on a stream itself, and waits there for the latter's events.
 *
 * Collectives are posted in the order of their places, over both lanes: streams of several
 * communicators share the device, and ranks that filled them in different orders could wait for
 * each other for ever.
 *
 * A stream goes on when a collective has failed or was given up. So updates, which nothing undoes,
 * start only when the host has seen done what they wait for, and no failure; and what a stream has
 * reached counts as done only where no failure is known behind it.
 */
#include <errno.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/relay.h"
#include "run/runner.h"

int zero__streams_create(struct zero__runner *run)
{
    int err = 0;

    /* Through the host's memory collectives have no stream: the relay posts what is at hand. */
    run->streamed =
        run->site->caps.flags & ZERO_COMM_STREAM && run->site->caps.mem & run->site->device_mem;
    for (uint32_t q = 0; q < ZERO__N_QUEUES && run->streamed && !err; q++)
        if (run->lanes[q].comm)
            err = run->site->dev_ops.stream_create(run->site->dev, zero__queue_name(q),
                                                   &run->lanes[q].stream);
    return err;
}

/* Will an event tell of all ops of the lane up to this one? */
static int is_recorded(struct zero__runner *run, uint32_t q, uint64_t ordinal)
{
    struct zero__lane *l = &run->lanes[q];

    if (l->dev != run->site->dev) /* the device cannot wait for the host's */
        return 0;
    if (q != ZERO__Q_COMPUTE)
        return l->stream && ordinal <= l->started;
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

int zero__streams_ready(struct zero__runner *run, uint32_t q, const struct zero__slot *s)
{
    if (s->place && s->place != run->n_begun + 1)
        return 0;
    if (!run->lanes[q].stream || is_final(s))
        return zero__lanes_reached(run, s->waits);
    for (uint32_t w = 0; w < ZERO__N_QUEUES; w++)
        if (run->lanes[w].done < s->waits[w] && !is_recorded(run, w, s->waits[w]))
            return 0;
    return 1;
}

/* Uses of units may stand on several streams of the application; other lanes are one each. */
int zero__streams_wait(struct zero__runner *run, uint32_t q, const struct zero__slot *s)
{
    void *stream = run->lanes[q].stream;

    for (uint32_t w = 0; w < ZERO__N_QUEUES && stream; w++) {
        struct zero__lane *l = &run->lanes[w];
        if (l->done >= s->waits[w] || l->stream == stream)
            continue;
        for (uint64_t o = w == ZERO__Q_COMPUTE ? l->done + 1 : s->waits[w]; o <= s->waits[w]; o++) {
            int err = run->site->dev_ops.stream_wait(run->site->dev, stream,
                                                     zero__lane_slot(l, o)->event);
            if (err)
                return err;
        }
    }
    return 0;
}

void zero__streams_arm(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
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

/* The first failure of a communicator whose collectives are under way; lock held. */
static int streams_error(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        int err = l->comm ? run->site->comm_ops.error(l->comm) : 0;
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

/* Notes what the device has reached; lock held. */
static int device_done(struct zero__runner *run, uint32_t q)
{
    struct zero__lane *l = &run->lanes[q];
    int n = 0;

    while (l->done < (q == ZERO__Q_COMPUTE ? l->issued : l->started)) {
        struct zero__slot *s = zero__lane_slot(l, l->done + 1);
        if (q == ZERO__Q_COMPUTE && (!s->released || !s->on_stream))
            break; /* still held; on the host, release itself counts it */
        int err = l->ops->event_query(l->dev, s->event);
        if (err == -EINPROGRESS)
            break;
        if (err)
            return err;
        int64_t now_ns = zero__now_ns();
        if (run->streamed && !s->armed && s->start_ns < l->ended_ns)
            s->start_ns = l->ended_ns; /* it was behind the one before */
        l->ended_ns = now_ns;
        zero__lane_done(run, q, now_ns);
        n++;
    }
    return n;
}

static int streams_done(struct zero__runner *run)
{
    int n = zero__relay_turn(run), all = n;

    for (uint32_t q = 0; q < ZERO__N_QUEUES && n >= 0; q++) {
        n = run->lanes[q].stream || q == ZERO__Q_COMPUTE ? device_done(run, q) : 0;
        all += n;
    }
    return n < 0 ? n : all;
}

/* The error is asked for after what streams have reached, and where there is one nothing counts. */
int zero__streams_look(struct zero__runner *run, bool *heard)
{
    uint64_t before[ZERO__N_QUEUES], after[ZERO__N_QUEUES], noted = run->flight.end;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        before[q] = run->lanes[q].done;
    int n = streams_done(run);
    if (!run->streamed || n < 0)
        return n;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        after[q] = run->lanes[q].done;
        run->lanes[q].done = before[q];
    }
    int err = streams_error(run);
    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++)
        run->lanes[q].done = after[q];
    *heard = err != 0;
    if (err) { /* those that stood where they were noted are gone */
        run->flight.lost = run->flight.end - noted;
        run->flight.end = noted;
    }
    return err ? err : n;
}
