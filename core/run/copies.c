/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of copies between tiers in memory, on a stream of the device. */
#include <errno.h>

#include "run/runner.h"

static uint8_t *at(struct zero__runner *run, const struct zero__slot *s,
                   const struct zero__access *x)
{
    return zero__address(run->site, s->body, x->buffer, x->off);
}

static int pairs_copy(struct zero__runner *run, const struct zero__lane *l,
                      const struct zero__slot *s)
{
    const struct zero__op *op = &s->body->ops[s->op];
    const struct zero__access *x = &s->body->accesses[op->first_access];
    int err = 0;

    if (op->flags & ZERO__OP_SUMS && !s->accumulate)
        return 0;
    for (uint32_t i = 0; i + 1 < op->n_accesses && !err; i += 2)
        err = l->ops->copy(l->dev, at(run, s, &x[i + 1]), at(run, s, &x[i]), x[i].bytes, l->stream);
    return err;
}

static int copies_start(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    const struct zero__lane *l = &run->lanes[queue];
    int err = l->started - l->done < ZERO__LAUNCHED_MOST ? zero__op_begin(run, queue, s) : -EAGAIN;

    if (!err)
        err = pairs_copy(run, l, s);
    return err ? err : l->ops->event_record(l->dev, s->event, l->stream);
}

const struct zero__lane_kind zero__kind_copies = {
    .server = ZERO__PROGRESS, .by_event = 1, .start = copies_start, .poll = zero__stream_poll};
