/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emit pass of training and evaluation bodies: one walk over the declared order of uses, which
 * appends ops in an order that is correct when run one by one. What may run at once follows from
 * where an op stands in that list:
 *
 * - A unit's gather is listed before the compute of an earlier use, as far ahead as
 *   prefetch_bytes of not yet used gathered bytes allow.
 * - A unit's gradients live in a bucket buffer from their first contribution; after the last one
 *   they are reduced, and the buffer is freed only when the room is wanted: bucket bytes in the
 *   list never exceed two buckets plus the largest unit's gradient (a tied unit that is larger
 *   than a bucket and waits for another contribution is the exception: it cannot be cut short).
 * - Activations leave the device behind the use that produces them and are back before the use that
 *   consumes them; see emit_activation.c.
 */
#include "schedule/emit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/grow.h"
#include "base/status.h"

static int emit_start(struct emit *e)
{
    uint32_t n_units = e->m->n_units, n_segments = e->m->n_segments, n = e->n_uses;

    e->b->n_homes = e->s->n_buffers;
    e->keep = calloc(n + 1, 1);
    e->gathered = zero__all_ones(n, sizeof *e->gathered);
    e->bucket = zero__all_ones(n_segments, sizeof *e->bucket);
    e->sums = zero__all_ones(n_segments, sizeof *e->sums);
    e->left = calloc(n_units + 1, sizeof *e->left);
    e->retire = calloc(n_units + 1, sizeof *e->retire);
    e->b->declared = zero__all_ones(e->m->n_buffers, sizeof *e->b->declared);
    e->b->away = zero__all_ones(e->m->n_buffers, sizeof *e->b->away);
    if (!e->keep || !e->gathered || !e->bucket || !e->sums || !e->left || !e->retire ||
        !e->b->declared || !e->b->away)
        return zero__fail(-ENOMEM, "no memory for a step program of %u uses", n);
    int err = zero__order_begin(e);
    if (err)
        return err;
    memcpy(e->left, e->contributions, n_units * sizeof *e->left);
    uint64_t largest = 0;
    for (uint32_t u = 0; u < n_units; u++)
        if (zero__unit_grad_bytes(e, u) > largest)
            largest = zero__unit_grad_bytes(e, u);
    if (zero__mul(2, e->r->bucket_bytes, &e->bucket_limit) ||
        zero__add(e->bucket_limit, largest, &e->bucket_limit))
        e->bucket_limit = UINT64_MAX;
    err = zero__declared_lives(e);
    if (!err)
        err = zero__saves_begin(e);
    return err ? err : zero__early_begin(e);
}

static void emit_end(struct emit *e)
{
    free(e->keep);
    free(e->gathered);
    free(e->bucket);
    free(e->sums);
    free(e->left);
    free(e->retire);
    zero__order_end(e);
    zero__declared_end(e);
    zero__early_end(e);
    zero__saves_end(e);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* A use finds the parameters in a buffer: they lie elsewhere, or are shards that are not mapped. */
static int brings(const struct emit *e, uint32_t segment)
{
    const struct zero__home *h = &e->s->homes[segment];

    return zero__tier_of(e->s, h->param) != ZERO__T_DEVICE ||
           (zero__recipe_shards(e->r, &e->m->segments[segment]) && !h->param_mapped);
}

uint64_t zero__unit_gathered_bytes(const struct emit *e, uint32_t unit)
{
    uint64_t bytes = 0;

    FOR_SEGMENTS (e->m, unit, i)
        if (brings(e, i))
            bytes += e->m->segments[i].padded * zero_dtype_bytes(e->m->segments[i].dtype);
    return bytes;
}

/*
 * Shortest gaps first: they keep the fewest byte-uses alive for a gather saved. Between neighbours
 * nothing else is gathered, so keeping a unit there costs nothing.
 */
static int retention_choose(struct emit *e)
{
    uint64_t budget = e->r->retain_bytes < 0 ? 0 : (uint64_t)e->r->retain_bytes;
    struct zero__lists by_gap;
    uint32_t *gaps;

    if (e->r->retain_bytes < 0)
        return 0;
    gaps = zero__all_ones(e->n_uses, sizeof *gaps);
    for (uint32_t i = 0; gaps && i < e->n_uses; i++)
        if (e->next[i] != ZERO_NONE)
            gaps[i] = e->next[i] - i;
    int err = gaps ? zero__lists_make(&by_gap, e->n_uses, gaps, NULL, e->n_uses) : -ENOMEM;
    free(gaps);
    if (err)
        return zero__fail(err, "no memory for a step program of %u uses", e->n_uses);
    for (uint32_t gap = 1; gap < e->n_uses; gap++)
        for (const uint32_t *i = zero__list_begin(&by_gap, gap); i < zero__list_end(&by_gap, gap);
             i++) {
            uint64_t bytes = zero__unit_gathered_bytes(e, e->uses[*i].unit);
            if (bytes == 0 || (gap > 1 && bytes > budget))
                continue;
            e->keep[*i] = 1;
            budget -= gap > 1 ? bytes : 0;
        }
    zero__lists_free(&by_gap);
    return 0;
}

/* Does use i find its unit gathered already? Then with which buffers. */
static int is_kept(const struct emit *e, uint32_t i)
{
    return e->before[i] != ZERO_NONE && e->keep[e->before[i]];
}

/* The shards of what was brought to the device: from its own buffer, or from the home. */
static void gather_op(struct emit *e, uint32_t use)
{
    uint32_t unit = e->uses[use].unit, id = e->gathered[use];
    struct zero__op op = {.kind = ZERO__GATHER, .queue = ZERO__Q_GATHER, .unit = unit};

    FOR_SEGMENTS (e->m, unit, i) {
        const struct zero__segment *s = &e->m->segments[i];
        if (brings(e, i) && zero__recipe_shards(e->r, s))
            op.wire_bytes += s->shard * zero_dtype_bytes(s->dtype) * (e->r->ranks - 1);
    }
    if (!op.wire_bytes)
        return;
    zero__body_op(e->b, &op);
    FOR_SEGMENTS (e->m, unit, i) {
        const struct zero__segment *s = &e->m->segments[i];
        uint64_t size = zero_dtype_bytes(s->dtype), shard = s->shard * size;
        uint32_t home = e->s->homes[i].param;
        int here = zero__tier_of(e->s, home) == ZERO__T_DEVICE;
        if (!brings(e, i))
            continue;
        if (zero__recipe_shards(e->r, s))
            zero__body_pair(e->b, i, here ? home : id, here ? 0 : shard * e->r->rank, shard, id, 0,
                            s->padded * size);
        id++;
    }
}

void zero__gather(struct emit *e, uint32_t use)
{
    struct zero__moves moves = {.unit = e->uses[use].unit};

    FOR_SEGMENTS (e->m, moves.unit, i) {
        const struct zero__segment *s = &e->m->segments[i];
        uint64_t size = zero_dtype_bytes(s->dtype);
        int shards = zero__recipe_shards(e->r, s);
        if (!brings(e, i))
            continue;
        uint32_t id = zero__body_buffer(e->b, ZERO_CLASS_GATHERED, i, ZERO_NONE, s->padded * size);
        e->gathered[use] = e->gathered[use] == ZERO_NONE ? id : e->gathered[use];
        zero__moves_add(
            e->s, &moves,
            &(struct zero__move){.segment = i,
                                 .home = e->s->homes[i].param,
                                 .buffer = id,
                                 .buffer_off = shards ? s->shard * size * e->r->rank : 0,
                                 .bytes = (shards ? s->shard : s->padded) * size});
    }
    zero__moves_load(e->s, &moves, e->b);
    gather_op(e, use);
}

/* Lists the gathers that may run while use i computes, and use i's own. */
static void gathers_up_to(struct emit *e, uint32_t i)
{
    for (; e->next_gather < e->n_uses; e->next_gather++) {
        uint32_t j = e->next_gather;
        uint64_t bytes = zero__unit_gathered_bytes(e, e->uses[j].unit);

        if (bytes == 0 || is_kept(e, j))
            continue;
        if (j > i && e->ahead + bytes > e->r->prefetch_bytes)
            break;
        zero__gather(e, j);
        e->ahead += j > i ? bytes : 0;
    }
}

/* ---- Computing ------------------------------------------------------------------------------- */

static void compute_access(struct emit *e, uint32_t use, int backward)
{
    uint32_t unit = e->uses[use].unit, gathered = e->gathered[use];

    FOR_SEGMENTS (e->m, unit, i) {
        const struct zero__segment *s = &e->m->segments[i];
        const struct zero__home *h = &e->s->homes[i];
        uint64_t bytes = s->padded * zero_dtype_bytes(s->dtype);
        uint32_t param = brings(e, i) ? gathered++ : h->param;

        /* Of mapped parameters the own part stands for all: peers' bytes have no place here. */
        zero__body_access(e->b, param, i, ZERO__R_PARAM, 0, 0,
                          h->param_mapped ? bytes / e->r->ranks : bytes);
        if (backward && s->trainable)
            zero__body_access(e->b, e->bucket[i] == ZERO_NONE ? h->grad : e->bucket[i], i,
                              ZERO__R_GRAD, 1, 0, bytes);
    }
}

static void compute(struct emit *e, uint32_t use)
{
    const struct zero_use *x = &e->uses[use];
    int backward = x->pass == ZERO_BACKWARD && zero__unit_trains(e->m, x->unit);
    struct zero__op op = {.kind = ZERO__COMPUTE,
                          .queue = ZERO__Q_COMPUTE,
                          .unit = x->unit,
                          .pass = (uint8_t)x->pass};

    if (backward) {
        int first = e->left[x->unit] == e->contributions[x->unit];
        op.flags |= first ? ZERO__OP_FIRST : 0;
        op.flags |= e->left[x->unit] == 1 ? ZERO__OP_LAST : 0;
        if (first)
            zero__grad_open(e, x->unit);
        zero__tiles_begin(e->tiles, e->b); /* beside the first backward uses */
    }
    zero__body_op(e->b, &op);
    compute_access(e, use, backward);
    zero__declared_access(e, use);
}

/* What ends with use i: its gathered buffers unless kept, declared buffers. */
static void release(struct emit *e, uint32_t use)
{
    uint32_t unit = e->uses[use].unit, marked = e->b->n_ops, next = e->next[use];
    uint32_t id = e->gathered[use];

    if (id != ZERO_NONE && e->keep[use])
        e->gathered[next] = id;
    FOR_SEGMENTS (e->m, unit, i)
        if (id != ZERO_NONE && !e->keep[use] && brings(e, i))
            zero__body_end(e->b, &marked, unit, id++);
    zero__declared_free(e, use, &marked);
}

static void emit_uses(struct emit *e)
{
    for (uint32_t i = 0; i < e->n_uses; i++) {
        if (i < e->next_gather && !is_kept(e, i)) /* it was gathered ahead, and now is used */
            e->ahead -= zero__unit_gathered_bytes(e, e->uses[i].unit);
        gathers_up_to(e, i);
        zero__saves_return(e, i);
        compute(e, i);
        release(e, i);
        zero__saves_leave(e, i);
        if (e->uses[i].pass == ZERO_BACKWARD && zero__unit_trains(e->m, e->uses[i].unit) &&
            --e->left[e->uses[i].unit] == 0)
            zero__grad_close(e, e->uses[i].unit);
    }
    zero__early_rest(e);
    zero__grad_retire_all(e);
    zero__saves_finish(e);
    zero__declared_finish(e);
}

int zero__emit_train(const struct zero__model *m, const struct zero__recipe *r,
                     const struct zero__states *s, const struct zero_use *uses, uint32_t n_uses,
                     int last, struct zero__body *b)
{
    struct emit e = {.m = m, .r = r, .s = s, .b = b, .uses = uses, .n_uses = n_uses, .last = last};
    int err = emit_start(&e);

    if (!err)
        err = retention_choose(&e);
    if (!err)
        emit_uses(&e);
    emit_end(&e);
    return err ? err : b->err;
}
