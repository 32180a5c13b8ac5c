/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker: reads a compiled body and trusts none of the passes. It recomputes what is known to
 * be done when an op starts from the waits alone, and then looks at every pair of ops.
 */
#include "program_check.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "memory/plan.h"

/* The body and the update before it (maybe an empty one) as one list. */
struct list {
    const struct zero__states *s;
    const struct zero__body *u, *b;
    uint32_t n;
    uint8_t *done; /* [i * n + j]: op j is done before op i starts */
};

static const struct zero__body *body_at(const struct list *l, uint32_t i)
{
    return i < l->u->n_ops ? l->u : l->b;
}

static const struct zero__op *op_at(const struct list *l, uint32_t i)
{
    return i < l->u->n_ops ? &l->u->ops[i] : &l->b->ops[i - l->u->n_ops];
}

/* Does op i wait, by its own waits, for op j? */
static int waits_for(const struct list *l, uint32_t i, uint32_t j)
{
    const struct zero__op *x = op_at(l, i), *y = op_at(l, j);
    const struct zero__body *b = body_at(l, i);
    int before = b == l->b && j < l->u->n_ops; /* in the update */

    for (uint32_t w = x->first_wait; w < x->first_wait + x->n_waits; w++) {
        const struct zero__wait *k = &b->waits[w];
        if (k->queue == y->queue && k->ordinal && y->ordinal &&
            (before && !k->behind ? 1 : before == (int)k->behind && y->ordinal <= k->ordinal))
            return 1; /* a queue's ops are done in order, those of the update first */
    }
    return 0;
}

/* Closed under what the queues guarantee, and the host between the two bodies. */
static void order_fill(const struct list *l)
{
    uint32_t n = l->n;

    for (uint32_t i = 0; i < n; i++) {
        const struct zero__op *x = op_at(l, i);
        uint8_t *row = l->done + (size_t)i * n;
        if (x->queue == ZERO__Q_NONE)
            continue;
        for (uint32_t j = 0; j < i; j++) {
            const struct zero__op *y = op_at(l, j);
            int overlaps = zero__queue_overlaps(x->queue);
            int first_hand = waits_for(l, i, j) || (y->queue == x->queue && !overlaps) ||
                             (body_at(l, i) != body_at(l, j) && !zero__queue_is_behind(y->queue));
            if (first_hand)
                row[j] = 1;
            /* Of a queue that overlaps, y has at least started before x. */
            if (first_hand || (y->queue == x->queue && overlaps))
                for (uint32_t k = 0; k < j; k++)
                    row[k] |= l->done[(size_t)j * n + k];
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

/* The access that wrote the first byte of a transient that op i reads, last before it, or NULL. */
static const struct zero__access *writer_of(const struct zero__body *b, uint32_t i,
                                            const struct zero__access *x)
{
    while (i-- > 0)
        for (uint32_t a = b->ops[i].first_access + b->ops[i].n_accesses;
             a-- > b->ops[i].first_access;) {
            const struct zero__access *w = &b->accesses[a];
            if (w->write && w->buffer == x->buffer && w->off <= x->off &&
                x->off - w->off < w->bytes && b->ops[i].kind != ZERO__UPDATE)
                return w;
        }
    return NULL;
}

/*
 * Tiles use the slots of others again: what an update finds in one must have come from its own
 * elements of its own segment. Elements are known where there is a master copy, from its bytes.
 */
static int tile_check(const struct zero__states *s, const struct zero__body *b, uint32_t i)
{
    const struct zero__op *op = &b->ops[i];
    const uint32_t end = op->first_access + op->n_accesses;
    uint64_t count = 0;

    for (uint32_t a = op->first_access; a < end; a++)
        if (b->accesses[a].role == ZERO__R_MASTER)
            count = b->accesses[a].bytes / s->homes[b->accesses[a].segment].master_bytes;
    for (uint32_t a = op->first_access; a < end; a++) {
        const struct zero__access *x = &b->accesses[a], *w;
        const struct zero__buffer *f = zero__buffer_of(s, b, x->buffer);
        if (!f->transient || f->tier == ZERO__T_DEVICE || x->segment == ZERO_NONE)
            continue;
        w = writer_of(b, i, x);
        if (!w || w->segment != x->segment)
            return zero__fail(-EFAULT, "op %u (%s) finds another segment's bytes in buffer %u", i,
                              zero__op_name(op->kind), x->buffer);
        uint64_t from = w[-1].off + (x->off - w->off); /* the other half of the pair */
        if (x->role >= ZERO__R_MASTER && x->role <= ZERO__R_VARIANCE && count &&
            from * count != op->first * x->bytes)
            return zero__fail(-EFAULT, "op %u (%s) finds another tile's bytes in buffer %u", i,
                              zero__op_name(op->kind), x->buffer);
    }
    return 0;
}

static int tiles_check(const struct zero__states *s, const struct zero__body *b)
{
    int err = 0;

    for (uint32_t i = 0; i < b->n_ops && !err; i++)
        if (b->ops[i].kind == ZERO__UPDATE && b->ops[i].flags & ZERO__OP_TILE)
            err = tile_check(s, b, i);
    return err;
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

static int pair_conflicts(const struct list *l, uint32_t i, uint32_t j)
{
    const struct zero__op *x = op_at(l, i), *y = op_at(l, j);
    const struct zero__body *bx = body_at(l, i), *by = body_at(l, j);

    for (uint32_t a = x->first_access; a < x->first_access + x->n_accesses; a++) {
        for (uint32_t c = y->first_access; c < y->first_access + y->n_accesses; c++) {
            struct zero__access p = zero__access_whole(x, &bx->accesses[a]);
            struct zero__access q = zero__access_whole(y, &by->accesses[c]);
            const struct zero__buffer *f = zero__buffer_of(l->s, bx, p.buffer);
            const struct zero__buffer *g = zero__buffer_of(l->s, by, q.buffer);
            uint64_t pf = f->offset + p.off, qf = g->offset + q.off;
            if ((p.write || q.write) && f->tier == g->tier && f->transient == g->transient &&
                pf < qf + q.bytes && qf < pf + p.bytes)
                return 1;
        }
    }
    return 0;
}

static int races_check(const struct zero__states *s, const struct zero__body *update,
                       const struct zero__body *b)
{
    static const struct zero__body nothing;
    struct list l = {.s = s, .u = update ? update : &nothing, .b = b};
    int err = 0;

    l.n = l.u->n_ops + b->n_ops;
    l.done = calloc((size_t)l.n * l.n + 1, 1);
    if (!l.done)
        return zero__fail(-ENOMEM, "no memory to check %u ops", l.n);
    order_fill(&l);
    for (uint32_t i = l.u->n_ops; i < l.n && !err; i++)
        for (uint32_t j = 0; j < i && !err; j++)
            if (op_at(&l, i)->queue != ZERO__Q_NONE && op_at(&l, j)->queue != ZERO__Q_NONE &&
                !l.done[(size_t)i * l.n + j] && pair_conflicts(&l, i, j))
                err = zero__fail(
                    -EFAULT, "ops %u (%s%s) and %u (%s) race", j < l.u->n_ops ? j : j - l.u->n_ops,
                    j < l.u->n_ops ? "of the update, " : "", zero__op_name(op_at(&l, j)->kind),
                    i - l.u->n_ops, zero__op_name(op_at(&l, i)->kind));
    free(l.done);
    return err;
}

int program_check(const struct zero__states *s, const struct zero__body *update,
                  const struct zero__body *b)
{
    int err = lives_check(s, b);

    if (!err)
        err = writes_check(s, b);
    if (!err)
        err = tiles_check(s, b);
    for (uint32_t tier = 0; tier < ZERO__N_TIERS && !err; tier++)
        err = overlap_check(b, tier);
    if (!err)
        err = races_check(s, update, b);
    return err;
}
