/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients in the emit pass: where a unit's gradient is written (its home, or a bucket buffer) and
 * what happens to it after the last contribution.
 *
 *   one micro-batch    stages 0, 1: written at home and reduced in place to the rank's part;
 *                      stage 0 then publishes it. Stages 2, 3: bucket, reduced to the shard.
 *   several, boundary  bucket, added to whole fp32 accumulators; reduced in place after the last.
 *   several, micro     bucket, reduced into the rank's part of the fp32 accumulators.
 */
#include <errno.h>

#include "base/status.h"
#include "schedule/emit.h"

uint64_t zero__unit_grad_bytes(const struct emit *e, uint32_t unit)
{
    const struct zero__unit *u = &e->m->units[unit];
    uint64_t bytes = 0;

    for (uint32_t i = u->first_segment; i < u->first_segment + u->n_segments; i++)
        if (e->m->segments[i].trainable)
            bytes += e->m->segments[i].padded * zero_dtype_bytes(e->m->segments[i].dtype);
    return bytes;
}

int zero__grad_first(const struct emit *e, uint32_t unit)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < e->n_uses; i++)
        total += e->uses[i].unit == unit && e->uses[i].pass == ZERO_BACKWARD;
    return e->left[unit] == total;
}

static int retire_oldest(struct emit *e)
{
    uint32_t k = e->retire_head++, marked = e->b->n_ops, id = e->retire[k].first_buffer;
    const struct zero__unit *u = &e->m->units[e->retire[k].unit];
    int err = 0;

    for (uint32_t i = u->first_segment; !err && i < u->first_segment + u->n_segments; i++)
        if (e->m->segments[i].trainable)
            err = zero__free_buffer(e, &marked, e->retire[k].unit, id++);
    e->bucket_live -= e->retire[k].bytes;
    return err;
}

int zero__grad_retire_all(struct emit *e)
{
    int err = 0;

    while (!err && e->retire_head < e->retire_tail)
        err = retire_oldest(e);
    return err;
}

/* Gap elements of a bucket must be zero before it is summed: the application does not write them */
static int gaps_fill(struct emit *e, uint32_t unit)
{
    const struct zero__unit *u = &e->m->units[unit];
    struct zero__op op = {.kind = ZERO__FILL, .queue = ZERO__Q_CPU, .unit = unit};
    uint32_t id = e->grads[unit], n_gaps = 0;
    int err;

    for (uint32_t i = u->first_segment; i < u->first_segment + u->n_segments; i++)
        n_gaps += e->m->segments[i].trainable ? e->m->segments[i].gaps.n : 0;
    if (n_gaps == 0)
        return 0;
    err = zero__body_op(e->b, &op, NULL);
    for (uint32_t i = u->first_segment; !err && i < u->first_segment + u->n_segments; i++) {
        const struct zero__segment *s = &e->m->segments[i];
        if (!s->trainable)
            continue;
        if (s->gaps.n)
            err = zero__body_access(e->b, id, i, ZERO__R_DST, 1, 0,
                                    s->padded * zero_dtype_bytes(s->dtype));
        id++;
    }
    return err;
}

int zero__grad_open(struct emit *e, uint32_t unit)
{
    const struct zero__unit *u = &e->m->units[unit];
    uint64_t bytes = zero__unit_grad_bytes(e, unit);
    uint32_t id;
    int err = 0;

    if (zero__grad_at_home(e->r))
        return 0;
    while (!err && e->bucket_live + bytes > e->bucket_limit && e->retire_head < e->retire_tail)
        err = retire_oldest(e);
    for (uint32_t i = u->first_segment; !err && i < u->first_segment + u->n_segments; i++) {
        const struct zero__segment *s = &e->m->segments[i];
        if (!s->trainable)
            continue;
        err = zero__body_buffer(e->b, ZERO_CLASS_BUCKETS, i, ZERO_NONE,
                                s->padded * zero_dtype_bytes(s->dtype), &id);
        if (!err && e->grads[unit] == ZERO_NONE)
            e->grads[unit] = id;
    }
    e->bucket_live += bytes;
    return err ? err : gaps_fill(e, unit);
}

/* The buffer, offset and length of a rank's part of a gradient or accumulator home. */
static void own_part(const struct emit *e, uint32_t i, int acc, uint32_t *id, uint64_t *off,
                     uint64_t *bytes)
{
    const struct zero__home *h = &e->s->homes[i];
    const struct zero__segment *s = &e->m->segments[i];
    uint32_t size = acc ? 4 : zero_dtype_bytes(s->dtype);

    *id = acc ? h->acc : h->grad;
    *bytes = s->shard * size;
    *off = (acc ? h->acc_whole : h->grad_whole) ? *bytes * e->r->rank : 0;
}

/* One op over all trainable segments; `source` is a bucket's first buffer, or ZERO_NONE: home. */
static int grad_op(struct emit *e, uint32_t unit, uint32_t kind, uint32_t source, int acc)
{
    const struct zero__unit *u = &e->m->units[unit];
    struct zero__op op = {.kind = (uint8_t)kind,
                          .queue = kind == ZERO__ACCUMULATE ? ZERO__Q_CPU : ZERO__Q_REDUCE,
                          .unit = unit};
    int err;

    for (uint32_t i = u->first_segment; i < u->first_segment + u->n_segments; i++) {
        const struct zero__segment *s = &e->m->segments[i];
        uint32_t size = source == ZERO_NONE && acc ? 4 : zero_dtype_bytes(s->dtype);
        if (s->trainable && kind != ZERO__ACCUMULATE)
            op.wire_bytes += s->shard * size * (e->r->ranks - 1);
    }
    err = zero__body_op(e->b, &op, NULL);
    for (uint32_t i = u->first_segment; !err && i < u->first_segment + u->n_segments; i++) {
        const struct zero__segment *s = &e->m->segments[i];
        uint32_t size = source == ZERO_NONE && acc ? 4 : zero_dtype_bytes(s->dtype), own;
        uint64_t off, bytes, whole = s->padded * size;
        if (!s->trainable)
            continue;
        own_part(e, i, acc, &own, &off, &bytes);
        if (kind == ZERO__PUBLISH) {
            err = zero__body_access(e->b, own, i, ZERO__R_SRC, 0, off, bytes);
            off = 0, bytes = whole;
        } else {
            err = zero__body_access(e->b, source == ZERO_NONE ? own : source++, i, ZERO__R_SRC, 0,
                                    0, whole);
            if (kind == ZERO__ACCUMULATE)
                off = 0, bytes = s->padded * 4;
        }
        if (!err)
            err = zero__body_access(e->b, own, i, ZERO__R_DST, 1, off, bytes);
    }
    return err;
}

int zero__grad_close(struct emit *e, uint32_t unit)
{
    int acc = e->r->accum > 1, alone = e->r->ranks == 1, err = 0;
    uint32_t bucket = e->grads[unit];
    int reduces = !alone && (!acc || !e->r->boundary || e->last);

    if (acc && (alone || e->r->boundary)) {
        err = grad_op(e, unit, ZERO__ACCUMULATE, bucket, 1);
        if (!err && reduces)
            err = grad_op(e, unit, ZERO__REDUCE, ZERO_NONE, 1);
    } else if (reduces) {
        err = grad_op(e, unit, ZERO__REDUCE, bucket, acc);
    }
    if (!err && reduces && e->r->stage == 0 && (!acc || e->last))
        err = grad_op(e, unit, ZERO__PUBLISH, ZERO_NONE, acc);
    if (!err && bucket != ZERO_NONE) {
        e->retire[e->retire_tail].unit = unit;
        e->retire[e->retire_tail].first_buffer = bucket;
        e->retire[e->retire_tail++].bytes = zero__unit_grad_bytes(e, unit);
        e->grads[unit] = ZERO_NONE;
    }
    return err;
}
