/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test mode: tells the host device's race detector what it cannot see by itself: the accesses of
 * transports and of the application, and every wait of the step program. Clocks follow the ops as
 * they start, so what is found does not depend on timing:
 *
 * - The compute lane is one stream. Lanes that are streams of the device are its own; what they
 *   wait for in streams they really wait for, and here they wait for what the host has seen done.
 * - Collectives of one lane may overlap, and so may transfers to and from a disk: each stands on
 *   one of WIDTH streams, in turn, after the start of the one before it; a further stream per lane
 *   follows their ends in order, because a wait for an op is one for all before it.
 * - A stream stands for the host, which orders bodies by draining lanes. An op comes after what the
 *   host had seen when it issued it, and not after what it has seen by the time the op starts.
 *
 * ZERO_TEST_RACES=SEED:MICROSECONDS switches it on; ZERO_TEST_SKIP_WAIT=K leaves the K-th wait of
 * the program out (from 1, over all bodies), and the detector has to say so.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "device/host.h"
#include "engine/runtime.h"

/*
 * Tiles of an update and what is fetched for units beside them. Four lanes have as many streams,
 * and one for their ends; with ten others these are 78, and the application's, of the device's 96.
 */
#define WIDTH 16u
_Static_assert(WIDTH >= 2 * ZERO__TILES, "transfers that share a stream would look ordered");
#define MARKS 16u /* what the host saw, the last times */

struct tracker {
    void *streams[ZERO__N_QUEUES][WIDTH], *ends[ZERO__N_QUEUES]; /* [COMPUTE][0] alone */
    void *start[ZERO__N_QUEUES], *end[ZERO__N_QUEUES][WIDTH];    /* events of transports */
    void **done[ZERO__N_QUEUES];                                 /* events by slot, but of cpu */
    uint32_t n_done[ZERO__N_QUEUES];
    void *host, *marks[MARKS];
    uint32_t n_marks;
};

static int overlapping_make(struct zero_runtime *rt, struct tracker *t, uint32_t q)
{
    const struct zero_device_ops *d = &rt->dev_ops;
    int err = d->stream_create(rt->dev, zero__queue_name(q), &t->ends[q]);

    if (!err)
        err = d->event_create(rt->dev, &t->start[q]);
    for (uint32_t k = 0; k < WIDTH && !err; k++) {
        err = d->stream_create(rt->dev, zero__queue_name(q), &t->streams[q][k]);
        if (!err)
            err = d->event_create(rt->dev, &t->end[q][k]);
    }
    return err;
}

int zero__track_create(struct zero_runtime *rt)
{
    const char *races = secure_getenv("ZERO_TEST_RACES"), *skip;
    const struct zero_device_ops *d = &rt->dev_ops;
    uint64_t seed; /* of the delays */
    uint32_t delay_us;

    if (!races || sscanf(races, "%" SCNu64 ":%" SCNu32, &seed, &delay_us) != 2)
        return 0;
    if (d->stream_create != zero__host_device_ops.stream_create)
        return zero__fail(-ENOTSUP, "ZERO_TEST_RACES looks for races on the host device only");
    int err = zero__host_test_mode(rt->dev, seed * 64 + (uint64_t)rt->rank, delay_us);
    if (err)
        return err;
    rt->test_host_updates = secure_getenv("ZERO_TEST_HOST_UPDATES") != NULL;
    skip = secure_getenv("ZERO_TEST_SKIP_WAIT");
    rt->test_skip_wait = skip ? (uint32_t)strtoul(skip, NULL, 10) : 0;
    struct tracker *t = rt->tracker = calloc(1, sizeof *t);
    if (!t)
        return zero__fail(-ENOMEM, "no memory for the race detector");
    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++)
        if (zero__queue_overlaps(q))
            err = overlapping_make(rt, t, q);
    if (!err)
        err = d->stream_create(rt->dev, "compute", &t->streams[ZERO__Q_COMPUTE][0]);
    if (!err)
        err = d->stream_create(rt->dev, "host", &t->host);
    for (uint32_t i = 0; i < MARKS && !err; i++)
        err = d->event_create(rt->dev, &t->marks[i]);
    return err;
}

int zero__track_size(struct zero_runtime *rt)
{
    struct tracker *t = rt->tracker;

    for (uint32_t q = 0; t && q < ZERO__N_QUEUES; q++) {
        uint32_t n = rt->lanes[q].capacity;
        if (rt->lanes[q].stream || n <= t->n_done[q])
            continue;
        free(t->done[q]); /* nothing is in flight; the device frees the events */
        t->n_done[q] = 0;
        t->done[q] = calloc(n, sizeof *t->done[q]);
        if (!t->done[q])
            return zero__fail(-ENOMEM, "no memory for the race detector");
        t->n_done[q] = n;
        for (uint32_t i = 0; i < n; i++) {
            int err = rt->dev_ops.event_create(rt->dev, &t->done[q][i]);
            if (err)
                return err;
        }
    }
    return 0;
}

void zero__track_free(struct zero_runtime *rt)
{
    if (!rt->tracker)
        return;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        free(rt->tracker->done[q]);
    free(rt->tracker); /* the device frees its streams and events when it closes */
    rt->tracker = NULL;
}

static void wait(struct zero_runtime *rt, void *stream, void *event)
{
    rt->dev_ops.stream_wait(rt->dev, stream, event);
}

static void record(struct zero_runtime *rt, void *event, void *stream)
{
    rt->dev_ops.event_record(rt->dev, event, stream);
}

/* The event of an op's end. */
static void *done_event(struct zero_runtime *rt, uint32_t q, uint64_t ordinal)
{
    if (rt->lanes[q].stream)
        return zero__lane_slot(&rt->lanes[q], ordinal)->event;
    return rt->tracker->done[q][ordinal & (rt->tracker->n_done[q] - 1)];
}

uint32_t zero__track_mark(const struct zero_runtime *rt)
{
    return rt->tracker ? rt->tracker->n_marks : 0;
}

void zero__track_host(struct zero_runtime *rt, int but_behind)
{
    struct tracker *t = rt->tracker;

    if (!t)
        return;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (rt->lanes[q].issued && !(but_behind && zero__queue_is_behind(q)))
            wait(rt, t->host, done_event(rt, q, rt->lanes[q].issued));
    void *mark = t->marks[++t->n_marks % MARKS];
    record(rt, mark, t->host);
    wait(rt, rt->lanes[ZERO__Q_CPU].stream, mark); /* the host also launches kernels itself */
}

static void touch(struct zero_runtime *rt, const struct slot *s, void *stream)
{
    const struct zero__op *op = &s->body->ops[s->op];

    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        struct zero__access x = zero__access_whole(op, &s->body->accesses[a]);
        rt->dev_ops.touch(rt->dev, stream, zero__address(rt, s->body, x.buffer, x.off), x.bytes,
                          x.write, zero__op_name(op->kind));
    }
}

void zero__track_start(struct zero_runtime *rt, uint32_t q, const struct slot *s, uint64_t ordinal)
{
    struct tracker *t = rt->tracker;

    if (!t)
        return;
    int overlaps = zero__queue_overlaps(q) && !rt->lanes[q].stream;
    if (!s->body) { /* the runtime's own collectives: the host waits for each */
        if (overlaps)
            record(rt, done_event(rt, q, ordinal), t->ends[q]);
        return;
    }
    uint32_t k = overlaps ? (uint32_t)(ordinal % WIDTH) : 0;
    void *stream = rt->lanes[q].stream ? rt->lanes[q].stream : t->streams[q][k];

    if (s->mark)
        wait(rt, stream, t->marks[s->mark % MARKS]);
    if (overlaps)
        wait(rt, stream, t->start[q]);
    for (uint32_t w = 0; w < ZERO__N_QUEUES; w++)
        if (s->waits[w] && (q == ZERO__Q_COMPUTE || rt->lanes[w].done >= s->waits[w]))
            wait(rt, stream, done_event(rt, w, s->waits[w]));
    if (rt->lanes[q].stream) { /* its launches say what they touch; functions and others do not */
        if (rt->lanes[q].comm ||
            (rt->optimizer == ZERO__CALLBACK && s->body->ops[s->op].kind == ZERO__UPDATE))
            touch(rt, s, stream);
        return;
    }
    if (overlaps)
        record(rt, t->start[q], stream);
    touch(rt, s, stream);
    if (overlaps) {
        record(rt, t->end[q][k], stream);
        wait(rt, t->ends[q], t->end[q][k]);
        stream = t->ends[q];
    }
    record(rt, done_event(rt, q, ordinal), stream);
}

void zero__track_acquired(struct zero_runtime *rt, void *stream)
{
    if (rt->tracker && stream)
        wait(rt, stream, done_event(rt, ZERO__Q_COMPUTE, rt->use_ordinal));
}

void zero__track_released(struct zero_runtime *rt, void *stream)
{
    if (!rt->tracker || !stream)
        return;
    void *done = done_event(rt, ZERO__Q_COMPUTE, rt->use_ordinal);
    record(rt, done, stream);
    wait(rt, rt->tracker->streams[ZERO__Q_COMPUTE][0], done);
}
