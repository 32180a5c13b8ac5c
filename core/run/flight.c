/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder: the last ops of this rank, and the last collectives that it posted, kept in
 * rings from commit on: an op is only issued where there is a program, which they come with.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "run/runner.h"

int zero__flight_create(struct zero__runner *run)
{
    run->flight.colls = calloc(ZERO__FLIGHT_KEPT, sizeof *run->flight.colls);
    if (run->flight.colls)
        run->flight.ring = calloc(ZERO__FLIGHT_KEPT, sizeof *run->flight.ring);
    return run->flight.ring ? 0 : zero__fail(-ENOMEM, "no memory for the flight recorder");
}

void zero__flight_free(struct zero__runner *run)
{
    free(run->flight.colls);
    free(run->flight.ring);
}

struct zero__flight_op zero__flight_op(const struct zero__slot *s, uint32_t queue, uint64_t ordinal,
                                       int64_t end_ns)
{
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;

    return (struct zero__flight_op){.ordinal = ordinal,
                                    .sequence = s->sequence,
                                    .start_ns = s->start_ns,
                                    .end_ns = end_ns,
                                    .n = s->n_colls,
                                    .kind = op ? op->kind : ZERO_NONE,
                                    .unit = op ? op->unit : ZERO_NONE,
                                    .queue = queue};
}

void zero__flight_note(struct zero__runner *run, const struct zero__slot *s, uint32_t queue,
                       uint64_t ordinal, int64_t end_ns)
{
    run->flight.ring[run->flight.end++ % ZERO__FLIGHT_KEPT] =
        zero__flight_op(s, queue, ordinal, end_ns);
}

struct zero__flight_coll zero__flight_coll(uint32_t queue, const struct zero_coll *c)
{
    return (struct zero__flight_coll){.sequence = c->sequence,
                                      .count = c->count,
                                      .queue = queue,
                                      .kind = c->kind,
                                      .flags = c->flags,
                                      .src_dtype = c->src_dtype,
                                      .dst_dtype = c->dst_dtype,
                                      .redop = c->redop,
                                      .epoch = c->epoch,
                                      .root = c->root,
                                      .scale_bits = zero_bits_of_float(c->scale)};
}

/* The oldest op that any lane of the transport waits in, or NULL. */
static const struct zero__slot *head(struct zero__runner *run)
{
    const struct zero__slot *first = NULL;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        const struct zero__slot *s = zero__lane_head(&run->lanes[q]);
        if (s && (!first || s->place < first->place))
            first = s;
    }
    return first;
}

/* One word, so that another thread reads it whole: kind + 1, unit + 1, number of the collective. */
#define NOW(kind, unit, sequence)                                               \
    ((uint64_t)((kind) + 1) << 56 | (uint64_t)(((unit) + 1) & 0xffffff) << 32 | \
     ((sequence)&UINT32_MAX))

void zero__flight_waits(struct zero__runner *run)
{
    const struct zero__slot *s = head(run);
    const struct zero__op *op = s && s->body ? &s->body->ops[s->op] : NULL;
    uint64_t now = !s   ? 0
                   : op ? NOW(op->kind, op->unit, s->sequence)
                        : NOW(ZERO__N_OPS, ZERO_NONE, s->sequence);

    if (atomic_load_explicit(&run->flight.now, memory_order_relaxed) != now)
        atomic_store_explicit(&run->flight.now, now, memory_order_release);
}

/* Units do not change any more once one is under way. */
void zero__flight_say(void *arg, char *text, size_t room)
{
    struct zero__runner *run = arg;
    uint64_t now = atomic_load_explicit(&run->flight.now, memory_order_acquire);
    uint32_t kind = (uint32_t)(now >> 56) - 1, unit = (uint32_t)(now >> 32 & 0xffffff);

    *text = 0;
    if (now)
        snprintf(text, room, "%s%s%.60s (#%" PRIu32 ")",
                 kind == ZERO__N_OPS ? "a collective of the runtime" : zero__op_name(kind),
                 unit ? " of " : "", unit ? run->site->model.units[unit - 1].name : "",
                 (uint32_t)now);
}
