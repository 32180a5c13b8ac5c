/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts one op: turns its accesses into collectives for the transport, or hands it to the kernels.
 * Sources and destinations come in pairs, one behind the other; what uses and updates work on is
 * found by (segment, role). Nothing here knows a stage.
 */
#include <errno.h>
#include <stdio.h>

#include "base/status.h"
#include "engine/relay.h"
#include "engine/runtime.h"
#include "machine/clock.h"

struct zero_slice zero__slice(struct zero_runtime *rt, uint32_t slab, uint64_t off, uint64_t len)
{
    return (struct zero_slice){rt->slabs[slab].mr, off, len};
}

uint8_t *zero__address(struct zero_runtime *rt, const struct zero__body *b, uint32_t buffer,
                       uint64_t off)
{
    const struct zero__buffer *f = zero__buffer_of(&rt->states, b, buffer);
    return rt->slabs[zero__slab_of(f)].base + f->offset + off;
}

uint8_t *zero__home_address(const struct zero_runtime *rt, uint32_t id, uint64_t off)
{
    const struct zero__buffer *f = &rt->states.buffers[id];
    return rt->slabs[zero__slab_of(f)].base + f->offset + off;
}

static struct zero_slice slice_of(struct zero_runtime *rt, const struct zero__body *b,
                                  const struct zero__access *x)
{
    const struct zero__buffer *f = zero__buffer_of(&rt->states, b, x->buffer);
    return zero__slice(rt, zero__slab_of(f), f->offset + x->off, x->bytes);
}

/* The element type of a segment's gradient buffer: accumulators are fp32. */
static uint32_t grad_dtype(struct zero_runtime *rt, const struct zero__body *b,
                           const struct zero__access *x)
{
    const struct zero__buffer *f = zero__buffer_of(&rt->states, b, x->buffer);
    return f->memory_class == ZERO_CLASS_ACCUMULATORS ? (uint32_t)ZERO_F32
                                                      : rt->model.segments[x->segment].dtype;
}

static void coll_fill(struct zero_runtime *rt, const struct slot *s, const struct zero__op *op,
                      const struct zero__access *src, const struct zero__access *dst,
                      struct zero_coll *c)
{
    *c = (struct zero_coll){.kind = op->kind == ZERO__REDUCE ? ZERO_REDUCE_SCATTER
                                                             : ZERO_ALL_GATHER,
                            .scale = 1,
                            .src = slice_of(rt, s->body, src),
                            .dst = slice_of(rt, s->body, dst)};
    if (src->buffer == dst->buffer)
        c->flags |= ZERO_COLL_INPLACE;
    if (op->kind == ZERO__NORM) {
        c->src_dtype = c->dst_dtype = ZERO_F64;
        c->count = 1;
        c->epoch = zero__norm_epoch(rt);
        return;
    }
    c->src_dtype = op->kind == ZERO__GATHER ? rt->model.segments[src->segment].dtype
                                            : grad_dtype(rt, s->body, src);
    c->dst_dtype = op->kind == ZERO__GATHER ? c->src_dtype : grad_dtype(rt, s->body, dst);
    c->count = rt->model.segments[src->segment].shard;
    c->epoch = src->segment + 1; /* units of one size are told apart */
    if (op->kind == ZERO__REDUCE) {
        c->redop = ZERO_SUM;
        c->scale = 1.0f / (float)rt->ranks;
        if (s->accumulate)
            c->flags |= ZERO_COLL_ACCUMULATE;
    }
}

uint8_t *zero__param_address(struct zero_runtime *rt, const struct zero__body *b, uint32_t segment,
                             uint32_t buffer)
{
    if (rt->mapped && rt->mapped[segment] && buffer == rt->states.homes[segment].param)
        return rt->mapped[segment];
    return zero__address(rt, b, buffer, 0);
}

/* Sources and destinations come in pairs, segment by segment. */
uint32_t zero__collectives(struct zero_runtime *rt, const struct slot *s, struct zero_coll *colls)
{
    if (!s->body) {
        colls[0] = s->own.coll;
        return 1;
    }
    const struct zero__op *op = &s->body->ops[s->op];
    const struct zero__access *x = &s->body->accesses[op->first_access];
    uint32_t n = op->n_accesses / 2;

    if (op->kind == ZERO__MAP) {
        colls[0] = (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1, .epoch = x->segment + 1};
        return 1;
    }
    for (uint32_t i = 0; i < n; i++)
        coll_fill(rt, s, op, &x[2 * i], &x[2 * i + 1], &colls[i]);
    return n;
}

int zero__collective_failed(const struct zero_runtime *rt, const struct slot *s, int err)
{
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;
    bool said = *zero__error_text();
    char text[ZERO_ERROR_BYTES];

    zero__unsaid(err, rt->comm_name);
    if (err != -EPROTO || !op)
        return said || !op ? err
                           : zero__while(err, "%s of %s", zero__op_name(op->kind),
                                         zero__slot_subject(rt, s));
    snprintf(text, sizeof text, "%s", zero__error_text());
    if (op->kind != ZERO__NORM)
        return zero__fail(err, "%s of %s: %s (an epoch is the number of a segment); all ranks must "
                          "use the same units in the same order", zero__op_name(op->kind),
                          rt->model.units[op->unit].name, text);
    return zero__fail(err, "norm: %s; its epoch stands for the groups' hyperparameters and for an "
                      "order that a step took: zero_set_lr() must give all ranks the same, and all "
                      "ranks must use the same units in the same order", text);
}

static int transport(struct zero_runtime *rt, uint32_t queue, struct slot *s)
{
    struct zero_coll colls[ZERO__MAX_COLLS];
    struct lane *l = &rt->lanes[queue];
    uint32_t n = zero__collectives(rt, s, colls);

    if (rt->relay)
        return zero__relay_start(rt, queue, s, colls, n);
    for (uint32_t i = 0; i < n; i++) {
        colls[i].group = queue;
        colls[i].sequence = l->sequence + 1 + i;
        colls[i].user = zero__user(queue, l->started + 1, 0);
    }
    s->pending = rt->streamed ? 0 : n; /* of a stream no completion comes but its event */
    s->n_colls = n;
    s->sequence = l->sequence + 1;
    s->deadline_ns = zero__deadline_ns(rt->timeout_ns);
    int err = rt->comm_ops.post(l->comm, colls, n, l->stream);
    if (err == -EAGAIN) /* no room now */
        return err;
    if (err) /* maybe the peers' were seen to differ before this rank posted its own */
        return zero__collective_failed(rt, s, err);
    for (uint32_t i = 0; i < n; i++)
        zero__flight_posted(rt, queue, &colls[i]);
    l->sequence += n;
    return 0;
}

int zero__execute(struct zero_runtime *rt, uint32_t queue, struct slot *s)
{
    const struct lane *l = &rt->lanes[queue];
    int err = rt->streamed && !s->follows ? zero__streams_wait(rt, queue, s) : 0;

    if (err)
        return err;
    s->follows = 1; /* and not once more where the transport has no room now */
    s->start_ns = zero__now_ns();
    s->armed = !rt->streamed;
    zero__track_start(rt, queue, s, rt->lanes[queue].started + 1);
    err = zero__queue_is_stream(queue) ? zero__execute_kernels(rt, &s->body->ops[s->op], s)
                                       : transport(rt, queue, s);
    return err || !l->stream ? err : l->ops->event_record(l->dev, s->event, l->stream);
}
