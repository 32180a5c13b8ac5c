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
#include "run/runner.h"

/*
 * Tiles of an update and what is fetched for units beside them. Four lanes have as many streams,
 * and one for their ends; with ten others these are 78, and the application's, of the device's 96.
 */
#define WIDTH 16u
_Static_assert(WIDTH >= 2 * ZERO__TILES, "transfers that share a stream would look ordered");
#define MARKS 16u /* what the host saw, the last times */

struct zero__tracker {
    void *streams[ZERO__N_QUEUES][WIDTH], *ends[ZERO__N_QUEUES]; /* [COMPUTE][0] alone */
    void *start[ZERO__N_QUEUES], *end[ZERO__N_QUEUES][WIDTH];    /* events of transports */
    void **done[ZERO__N_QUEUES];                                 /* events by slot, but of cpu */
    uint32_t n_done[ZERO__N_QUEUES];
    void *host, *marks[MARKS];
    uint32_t n_marks;
};

static int overlapping_make(struct zero__runner *run, struct zero__tracker *t, uint32_t q)
{
    const struct zero_device_ops *d = &run->site->dev_ops;
    int err = d->stream_create(run->site->dev, zero__queue_name(q), &t->ends[q]);

    if (!err)
        err = d->event_create(run->site->dev, &t->start[q]);
    for (uint32_t k = 0; k < WIDTH && !err; k++) {
        err = d->stream_create(run->site->dev, zero__queue_name(q), &t->streams[q][k]);
        if (!err)
            err = d->event_create(run->site->dev, &t->end[q][k]);
    }
    return err;
}

int zero__track_create(struct zero__runner *run)
{
    const char *races = secure_getenv("ZERO_TEST_RACES"), *skip;
    const struct zero_device_ops *d = &run->site->dev_ops;
    uint64_t seed; /* of the delays */
    uint32_t delay_us;

    if (!races || sscanf(races, "%" SCNu64 ":%" SCNu32, &seed, &delay_us) != 2)
        return 0;
    if (d->stream_create != zero__host_device_ops.stream_create)
        return zero__fail(-ENOTSUP, "ZERO_TEST_RACES looks for races on the host device only");
    int err = zero__host_test_mode(run->site->dev, seed * 64 + (uint64_t)run->site->rank, delay_us);
    if (err)
        return err;
    run->test_host_updates = secure_getenv("ZERO_TEST_HOST_UPDATES") != NULL;
    skip = secure_getenv("ZERO_TEST_SKIP_WAIT");
    run->test_skip_wait = skip ? (uint32_t)strtoul(skip, NULL, 10) : 0;
    struct zero__tracker *t = run->tracker = calloc(1, sizeof *t);
    if (!t)
        return zero__fail(-ENOMEM, "no memory for the race detector");
    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++)
        if (zero__queue_overlaps(q))
            err = overlapping_make(run, t, q);
    if (!err)
        err = d->stream_create(run->site->dev, "compute", &t->streams[ZERO__Q_COMPUTE][0]);
    if (!err)
        err = d->stream_create(run->site->dev, "host", &t->host);
    for (uint32_t i = 0; i < MARKS && !err; i++)
        err = d->event_create(run->site->dev, &t->marks[i]);
    return err;
}

int zero__track_size(struct zero__runner *run)
{
    struct zero__tracker *t = run->tracker;

    for (uint32_t q = 0; t && q < ZERO__N_QUEUES; q++) {
        uint32_t n = run->lanes[q].capacity;
        if (run->lanes[q].stream || n <= t->n_done[q])
            continue;
        free(t->done[q]); /* nothing is in flight; the device frees the events */
        t->n_done[q] = 0;
        t->done[q] = calloc(n, sizeof *t->done[q]);
        if (!t->done[q])
            return zero__fail(-ENOMEM, "no memory for the race detector");
        t->n_done[q] = n;
        for (uint32_t i = 0; i < n; i++) {
            int err = run->site->dev_ops.event_create(run->site->dev, &t->done[q][i]);
            if (err)
                return err;
        }
    }
    return 0;
}

void zero__track_free(struct zero__runner *run)
{
    if (!run->tracker)
        return;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        free(run->tracker->done[q]);
    free(run->tracker); /* the device frees its streams and events when it closes */
    run->tracker = NULL;
}

static void wait(struct zero__runner *run, void *stream, void *event)
{
    run->site->dev_ops.stream_wait(run->site->dev, stream, event);
}

static void record(struct zero__runner *run, void *event, void *stream)
{
    run->site->dev_ops.event_record(run->site->dev, event, stream);
}

/* The event of an op's end. */
static void *done_event(struct zero__runner *run, uint32_t q, uint64_t ordinal)
{
    if (run->lanes[q].stream)
        return zero__lane_slot(&run->lanes[q], ordinal)->event;
    return run->tracker->done[q][ordinal & (run->tracker->n_done[q] - 1)];
}

uint32_t zero__track_mark(const struct zero__runner *run)
{
    return run->tracker ? run->tracker->n_marks : 0;
}

void zero__track_host(struct zero__runner *run, int but_behind)
{
    struct zero__tracker *t = run->tracker;

    if (!t)
        return;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (run->lanes[q].issued && !(but_behind && zero__queue_is_behind(q)))
            wait(run, t->host, done_event(run, q, run->lanes[q].issued));
    void *mark = t->marks[++t->n_marks % MARKS];
    record(run, mark, t->host);
    wait(run, run->lanes[ZERO__Q_CPU].stream, mark); /* the host also launches kernels itself */
}

static void touch(struct zero__runner *run, const struct zero__slot *s, void *stream)
{
    const struct zero__op *op = &s->body->ops[s->op];

    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        struct zero__access x = zero__access_whole(op, &s->body->accesses[a]);
        run->site->dev_ops.touch(run->site->dev, stream,
                                 zero__address(run->site, s->body, x.buffer, x.off), x.bytes,
                                 x.write, zero__op_name(op->kind));
    }
}

void zero__track_start(struct zero__runner *run, uint32_t q, const struct zero__slot *s,
                       uint64_t ordinal)
{
    struct zero__tracker *t = run->tracker;

    if (!t)
        return;
    int overlaps = zero__queue_overlaps(q) && !run->lanes[q].stream;
    if (!s->body) { /* the runtime's own collectives: the host waits for each */
        if (overlaps)
            record(run, done_event(run, q, ordinal), t->ends[q]);
        return;
    }
    uint32_t k = overlaps ? (uint32_t)(ordinal % WIDTH) : 0;
    void *stream = run->lanes[q].stream ? run->lanes[q].stream : t->streams[q][k];

    if (s->mark)
        wait(run, stream, t->marks[s->mark % MARKS]);
    if (overlaps)
        wait(run, stream, t->start[q]);
    for (uint32_t w = 0; w < ZERO__N_QUEUES; w++)
        if (s->waits[w] && (q == ZERO__Q_COMPUTE || run->lanes[w].done >= s->waits[w]))
            wait(run, stream, done_event(run, w, s->waits[w]));
    if (run->lanes[q].stream) { /* its launches say what they touch; functions and others do not */
        if (run->lanes[q].comm ||
            (run->site->optimizer == ZERO__CALLBACK && s->body->ops[s->op].kind == ZERO__UPDATE))
            touch(run, s, stream);
        return;
    }
    if (overlaps)
        record(run, t->start[q], stream);
    touch(run, s, stream);
    if (overlaps) {
        record(run, t->end[q][k], stream);
        wait(run, t->ends[q], t->end[q][k]);
        stream = t->ends[q];
    }
    record(run, done_event(run, q, ordinal), stream);
}

void zero__track_acquired(struct zero__runner *run, void *stream)
{
    if (run->tracker && stream)
        wait(run, stream, done_event(run, ZERO__Q_COMPUTE, run->use));
}

void zero__track_released(struct zero__runner *run, void *stream)
{
    if (!run->tracker || !stream)
        return;
    void *done = done_event(run, ZERO__Q_COMPUTE, run->use);
    record(run, done, stream);
    wait(run, run->tracker->streams[ZERO__Q_COMPUTE][0], done);
}

int zero__track_is_on(const struct zero__runner *run)
{
    return run->tracker != NULL;
}
