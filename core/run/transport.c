/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of the transport: collectives that it completes one by one, or in streams of the device. */
#include <errno.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

static int post(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    struct zero_coll colls[ZERO__MAX_COLLS];
    struct zero__lane *l = &run->lanes[queue];
    int err = zero__op_begin(run, queue, s);

    if (err)
        return err;
    uint32_t n = zero__collectives(run, s, colls);
    for (uint32_t i = 0; i < n; i++) {
        colls[i].group |= queue;
        colls[i].sequence = l->sequence + 1 + i;
        colls[i].user = zero__user(queue, l->started + 1, 0);
    }
    s->pending = l->kind->by_event ? 0 : n;
    s->n_colls = n;
    s->sequence = l->sequence + 1;
    s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
    err = run->site->comm_ops.post(l->comm, colls, n, l->stream);
    if (err == -EAGAIN) /* no room now */
        return err;
    if (err) /* a mismatch may be detected before this rank's own post */
        return zero__collective_failed(run, s, err);
    for (uint32_t i = 0; i < n; i++)
        zero__posted(run, queue, &colls[i]);
    l->sequence += n;
    return l->kind->by_event ? l->ops->event_record(l->dev, s->event, l->stream) : 0;
}

/*
 * Completions come in the order of the posts of their communicator; lanes go at their own pace. An
 * op is done when all of its collectives are, and the ops before it.
 */
static int complete(struct zero__runner *run, uint32_t queue, const struct zero_cqe *c)
{
    struct zero__lane *l = &run->lanes[queue];
    struct zero__slot *s = zero__lane_slot(l, zero__user_ordinal(c->user));

    if (zero__user_ordinal(c->user) > l->started || s->pending == 0)
        return zero__progress_kind.stray(run, c);
    if (c->res < 0)
        return zero__collective_failed(run, s, (int)c->res);
    s->pending--;
    zero__lane_settle(run, queue);
    return 0;
}

/* The sources of the collectives that are not complete. */
static uint64_t unsent(const struct zero__runner *run, const struct zero__slot *s)
{
    const struct zero__op *op = &s->body->ops[s->op];
    const struct zero__access *x = &s->body->accesses[op->first_access];
    uint32_t n = op->wire_bytes ? op->n_accesses / 2 : 0;
    uint64_t bytes = 0;

    (void)run;
    for (uint32_t i = n - s->pending; i < n; i++)
        bytes += x[2 * i].bytes;
    return bytes;
}

const struct zero__lane_kind zero__kind_transport = {.server = ZERO__PROGRESS,
                                                     .collective = 1,
                                                     .start = post,
                                                     .complete = complete,
                                                     .unsent = unsent};
const struct zero__lane_kind zero__kind_transport_streams = {.server = ZERO__PROGRESS,
                                                             .collective = 1,
                                                             .by_event = 1,
                                                             .start = post,
                                                             .poll = zero__stream_poll,
                                                             .unsent = unsent};
