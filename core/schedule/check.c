/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker: reads a compiled body and trusts none of the passes. It recomputes what is known to
 * be done when an op starts from the waits alone, and then looks at every pair of ops.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "memory/plan.h"
#include "schedule/program.h"

/* done[i * n + j]: op j is done before op i starts. Closed under what the queues guarantee. */
static void order_fill(const struct zero__body *b, uint8_t *done)
{
    uint32_t n = b->n_ops;

    for (uint32_t i = 0; i < n; i++) {
        const struct zero__op *x = &b->ops[i];
        uint8_t *row = done + (size_t)i * n;
        if (x->queue == ZERO__Q_NONE)
            continue;
        for (uint32_t j = 0; j < i; j++) {
            const struct zero__op *y = &b->ops[j];
            int first_hand = 0;
            if (y->queue == x->queue && !zero__queue_overlaps(x->queue))
                first_hand = 1;
            for (uint32_t w = x->first_wait; w < x->first_wait + x->n_waits; w++)
                first_hand |= b->waits[w].queue == y->queue && y->ordinal &&
                              y->ordinal <= b->waits[w].ordinal;
            if (y->queue == x->queue && zero__queue_overlaps(x->queue)) /* y has started before x */
                for (uint32_t k = 0; k < j; k++)
                    row[k] |= done[(size_t)j * n + k];
            if (!first_hand)
                continue;
            row[j] = 1;
            for (uint32_t k = 0; k < j; k++)
                row[k] |= done[(size_t)j * n + k];
        }
    }
}

static int lives_check(const struct zero__states *s, const struct zero__body *b)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
            const struct zero__access *x = &b->accesses[a];
            const struct zero__buffer *f = zero__buffer_of(s, b, x->buffer);
            if (x->off > f->bytes || x->bytes > f->bytes - x->off)
                return zero__fail(-EFAULT, "op %u (%s) touches bytes outside buffer %u", i,
                                  zero__op_name(op->kind), x->buffer);
            if (op->queue != ZERO__Q_NONE && f->transient && (i < f->first || i >= f->last))
                return zero__fail(-EFAULT, "op %u (%s) touches buffer %u outside its life", i,
                                  zero__op_name(op->kind), x->buffer);
        }
    }
    return 0;
}

/* The first op on a transient buffer must write it. */
static int writes_check(const struct zero__states *s, const struct zero__body *b)
{
    for (uint32_t id = b->n_homes; id < b->n_homes + b->n_buffers; id++) {
        for (uint32_t a = 0; a < b->n_accesses; a++) {
            if (b->accesses[a].buffer != id)
                continue;
            if (!b->accesses[a].write)
                return zero__fail(-EFAULT, "buffer %u (%s) is read before it is written", id,
                                  zero__class_name(zero__buffer_of(s, b, id)->memory_class));
            break;
        }
    }
    return 0;
}

static int overlap_check(const struct zero__body *b, uint32_t tier)
{
    struct zero__plan_buffer *p = calloc(b->n_buffers + 1, sizeof *p);
    uint32_t x, y;

    if (!p)
        return zero__fail(-ENOMEM, "no memory to check %u buffers", b->n_buffers);
    for (uint32_t i = 0; i < b->n_buffers; i++) /* of another tier: as if it had no bytes */
        p[i] = (struct zero__plan_buffer){b->buffers[i].tier == tier ? b->buffers[i].bytes : 0,
                                          b->buffers[i].first, b->buffers[i].last,
                                          b->buffers[i].offset};
    int err = zero__plan_check(p, b->n_buffers, &x, &y);
    free(p);
    return err ? zero__fail(-EFAULT, "buffers %u and %u live on the same bytes", x + b->n_homes,
                            y + b->n_homes)
               : 0;
}

static int pair_conflicts(const struct zero__states *s, const struct zero__body *b, uint32_t i,
                          uint32_t j)
{
    const struct zero__op *x = &b->ops[i], *y = &b->ops[j];

    for (uint32_t a = x->first_access; a < x->first_access + x->n_accesses; a++) {
        for (uint32_t c = y->first_access; c < y->first_access + y->n_accesses; c++) {
            const struct zero__access *p = &b->accesses[a], *q = &b->accesses[c];
            const struct zero__buffer *f = zero__buffer_of(s, b, p->buffer);
            const struct zero__buffer *g = zero__buffer_of(s, b, q->buffer);
            uint64_t pf = f->offset + p->off, qf = g->offset + q->off;
            if ((p->write || q->write) && f->tier == g->tier && f->transient == g->transient &&
                pf < qf + q->bytes && qf < pf + p->bytes)
                return 1;
        }
    }
    return 0;
}

static int races_check(const struct zero__states *s, const struct zero__body *b)
{
    uint32_t n = b->n_ops;
    uint8_t *done = calloc((size_t)n * n + 1, 1);
    int err = 0;

    if (!done)
        return zero__fail(-ENOMEM, "no memory to check %u ops", n);
    order_fill(b, done);
    for (uint32_t i = 0; i < n && !err; i++)
        for (uint32_t j = 0; j < i && !err; j++)
            if (b->ops[i].queue != ZERO__Q_NONE && b->ops[j].queue != ZERO__Q_NONE &&
                !done[(size_t)i * n + j] && pair_conflicts(s, b, i, j))
                err = zero__fail(-EFAULT, "ops %u (%s) and %u (%s) race", j,
                                 zero__op_name(b->ops[j].kind), i, zero__op_name(b->ops[i].kind));
    free(done);
    return err;
}

int zero__check_body(const struct zero__states *s, const struct zero__body *b)
{
    int err = lives_check(s, b);

    if (!err)
        err = writes_check(s, b);
    for (uint32_t tier = 0; tier < ZERO__N_TIERS && !err; tier++)
        err = overlap_check(b, tier);
    if (!err)
        err = races_check(s, b);
    return err;
}
