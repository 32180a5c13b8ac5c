/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives of an op: its accesses come in pairs, a source and a destination for each segment
 * of the unit, and each pair becomes one collective. Nothing here knows a stage.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "run/runner.h"

/*
 * In a collective's group, beside the number of its queue: the step's last micro-batch has begun. A
 * rank that ends its step with another micro-batch than its peers is found by the first collective
 * that they have in common.
 */
#define LAST_MICRO 16u
_Static_assert(ZERO__N_QUEUES <= LAST_MICRO, "a group has four bits for the queue");

static struct zero_slice slice_of(const struct zero__site *site, const struct zero__body *b,
                                  const struct zero__access *x)
{
    const struct zero__buffer *f = zero__buffer_of(&site->states, b, x->buffer);
    return zero__slice(site, zero__slab_of(f), f->offset + x->off, x->bytes);
}

/* The element type of a segment's gradient buffer: accumulators are fp32. */
static uint32_t grad_dtype(const struct zero__site *site, const struct zero__body *b,
                           const struct zero__access *x)
{
    const struct zero__buffer *f = zero__buffer_of(&site->states, b, x->buffer);
    return f->memory_class == ZERO_CLASS_ACCUMULATORS ? (uint32_t)ZERO_F32
                                                      : site->model.segments[x->segment].dtype;
}

static void coll_fill(const struct zero__site *site, const struct zero__slot *s,
                      const struct zero__op *op, const struct zero__access *src,
                      const struct zero__access *dst, struct zero_coll *c)
{
    *c =
        (struct zero_coll){.kind = op->kind == ZERO__REDUCE ? ZERO_REDUCE_SCATTER : ZERO_ALL_GATHER,
                           .scale = 1,
                           .group = s->ended ? LAST_MICRO : 0,
                           .src = slice_of(site, s->body, src),
                           .dst = slice_of(site, s->body, dst)};
    if (src->buffer == dst->buffer)
        c->flags |= ZERO_COLL_INPLACE;
    if (op->kind == ZERO__NORM) {
        c->src_dtype = c->dst_dtype = ZERO_F64;
        c->count = 1;
        c->epoch = s->epoch;
        return;
    }
    c->src_dtype = op->kind == ZERO__GATHER ? site->model.segments[src->segment].dtype
                                            : grad_dtype(site, s->body, src);
    c->dst_dtype = op->kind == ZERO__GATHER ? c->src_dtype : grad_dtype(site, s->body, dst);
    c->count = site->model.segments[src->segment].shard;
    c->epoch = src->segment + 1; /* units of one size are told apart */
    if (op->kind == ZERO__REDUCE) {
        c->redop = ZERO_SUM;
        c->scale = 1.0f / (float)site->ranks;
        if (s->accumulate)
            c->flags |= ZERO_COLL_ACCUMULATE;
    }
}

uint32_t zero__collectives(const struct zero__runner *run, const struct zero__slot *s,
                           struct zero_coll *colls)
{
    if (!s->body) {
        colls[0] = s->own.coll;
        return 1;
    }
    const struct zero__op *op = &s->body->ops[s->op];
    const struct zero__access *x = &s->body->accesses[op->first_access];
    uint32_t n = op->n_accesses / 2;

    if (op->kind == ZERO__MAP) {
        colls[0] = (struct zero_coll){.kind = ZERO_BARRIER,
                                      .scale = 1,
                                      .group = s->ended ? LAST_MICRO : 0,
                                      .epoch = x->segment + 1};
        return 1;
    }
    for (uint32_t i = 0; i < n; i++)
        coll_fill(run->site, s, op, &x[2 * i], &x[2 * i + 1], &colls[i]);
    return n;
}

int zero__collective_failed(const struct zero__runner *run, const struct zero__slot *s, int err)
{
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;
    bool said = *zero__error_text();
    char text[ZERO_ERROR_BYTES];

    zero__unsaid(err, run->site->comm_name);
    if (err != -EPROTO || !op)
        return said || !op ? err
                           : zero__while(err, "%s of %s", zero__op_name(op->kind),
                                         zero__slot_subject(run, s));
    snprintf(text, sizeof text, "%s", zero__error_text());
    if (strstr(text, "group"))
        return zero__fail(err,
                          "%s of %s: %s; 16 is added to the group from a step's last micro-batch "
                          "on: zero_begin() must be given the same last_micro by all ranks",
                          zero__op_name(op->kind), zero__slot_subject(run, s), text);
    if (op->kind != ZERO__NORM)
        return zero__fail(err,
                          "%s of %s: %s (an epoch is the number of a segment); all ranks must "
                          "use the same units in the same order",
                          zero__op_name(op->kind), run->site->model.units[op->unit].name, text);
    return zero__fail(
        err,
        "norm: %s; its epoch is made of the groups' hyperparameters, the step's order "
        "and its micro-batches (%u on rank %d): zero_set_lr() must give all ranks the "
        "same, and all ranks must use units in the same order and end a step alike",
        text, s->micro, run->site->rank);
}
