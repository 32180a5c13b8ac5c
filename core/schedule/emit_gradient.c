/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients in the emit pass: where a unit's gradient is written (its home, or a bucket buffer) and
 * what happens to it after the last contribution.
 *
 *   one micro-batch    stages 0, 1: written at home and reduced in place to the rank's part;
 *                      stage 0 then publishes it. Stages 2, 3: bucket, reduced to the shard.
 *   several, boundary  bucket, added to whole fp32 accumulators; reduced in place after the last.
 *   several, micro     bucket, reduced into the rank's part of the fp32 accumulators.
 *
 * A home outside the device has a stand-in there for as long as the unit is reduced: with one
 * micro-batch the bucket, which then is reduced in place in every stage; with several, accumulators
 * that are loaded before and stored behind. The squares for the norm are taken from the stand-in,
 * so that no gradient comes back for them. Where an update does not wait for the norm, it reads the
 * stand-in, and with one micro-batch there is no home at all.
 */
#include "schedule/emit.h"

static struct zero__gradient gradient_of(const struct emit *e, uint32_t i)
{
    return zero__gradient_of(e->m, e->r, e->s, i);
}

/* The segment's gradient is written to its home, not to a bucket. */
static int is_at_home(const struct emit *e, uint32_t segment)
{
    uint32_t home = e->s->homes[segment].grad;

    return e->r->accum == 1 && (e->r->ranks == 1 || e->r->stage < 2) && home != ZERO_NONE &&
           zero__tier_of(e->s, home) == ZERO__T_DEVICE;
}

static uint64_t bucket_bytes(const struct emit *e, uint32_t i)
{
    const struct zero__segment *s = &e->m->segments[i];

    return is_at_home(e, i) ? 0 : s->padded * zero_dtype_bytes(s->dtype);
}

static uint64_t sums_bytes(const struct emit *e, uint32_t i)
{
    struct zero__gradient g = gradient_of(e, i);

    return e->r->accum > 1 && g.tier != ZERO__T_DEVICE ? g.bytes : 0;
}

uint64_t zero__unit_grad_bytes(const struct emit *e, uint32_t unit)
{
    uint64_t bytes = 0;

    FOR_TRAINABLE (e->m, unit, i)
        bytes += bucket_bytes(e, i) + sums_bytes(e, i);
    return bytes;
}

static void retire_oldest(struct emit *e)
{
    struct emit_retired *x = &e->retire[e->retire_head++];
    uint32_t marked = e->b->n_ops;

    zero__moves_free(&x->home, &marked, e->b);
    FOR_TRAINABLE (e->m, x->home.unit, i) {
        if (e->bucket[i] != ZERO_NONE)
            zero__body_end(e->b, &marked, x->home.unit, e->bucket[i]);
        if (e->sums[i] != ZERO_NONE)
            zero__body_end(e->b, &marked, x->home.unit, e->sums[i]);
        e->bucket[i] = e->sums[i] = ZERO_NONE;
    }
    e->bucket_live -= x->bytes;
}

void zero__grad_retire_all(struct emit *e)
{
    while (e->retire_head < e->retire_tail)
        retire_oldest(e);
}

/* Gap elements of a bucket must be zero before it is summed: the application does not write them */
static void gaps_fill(struct emit *e, uint32_t unit)
{
    struct zero__op op = {.kind = ZERO__FILL, .queue = ZERO__Q_CPU, .unit = unit};
    int n = 0;

    FOR_TRAINABLE (e->m, unit, i) {
        if (e->bucket[i] == ZERO_NONE || !e->m->segments[i].gaps.n)
            continue;
        if (n++ == 0)
            zero__body_op(e->b, &op);
        zero__body_access(e->b, e->bucket[i], i, ZERO__R_DST, 1, 0, bucket_bytes(e, i));
    }
}

static void buckets_open(struct emit *e, uint32_t unit)
{
    uint64_t bytes = zero__unit_grad_bytes(e, unit);

    while (e->bucket_live + bytes > e->bucket_limit && e->retire_head < e->retire_tail)
        retire_oldest(e);
    FOR_TRAINABLE (e->m, unit, i)
        if (bucket_bytes(e, i))
            e->bucket[i] = zero__body_buffer(e->b, ZERO_CLASS_BUCKETS, i, ZERO_NONE,
                                             bucket_bytes(e, i));
    e->bucket_live += bytes;
}

void zero__grad_open(struct emit *e, uint32_t unit)
{
    buckets_open(e, unit);
    gaps_fill(e, unit);
}

/* ---- Places ---------------------------------------------------------------------------------- */

struct place {
    uint32_t id;
    uint64_t own; /* of the rank's part in it */
};

/* Where a unit's uses have written a segment's gradient. */
static uint32_t written_in(const struct emit *e, uint32_t i)
{
    return e->bucket[i] == ZERO_NONE ? e->s->homes[i].grad : e->bucket[i];
}

/* Where its reduction leads, on the device: the home, or what stands in for it. */
static struct place reduced_in(const struct emit *e, uint32_t i)
{
    struct zero__gradient g = gradient_of(e, i);

    if (e->r->accum > 1)
        return (struct place){e->sums[i] == ZERO_NONE ? g.home : e->sums[i], g.own_off};
    if (g.home != ZERO_NONE && g.tier == ZERO__T_DEVICE)
        return (struct place){g.home, g.own_off};
    return (struct place){e->bucket[i], g.own_bytes * e->r->rank};
}

/* ---- Ops, over all trainable segments of a unit ---------------------------------------------- */

static void accumulate(struct emit *e, uint32_t unit)
{
    struct zero__op op = {.kind = ZERO__ACCUMULATE, .queue = ZERO__Q_CPU, .unit = unit};

    zero__body_op(e->b, &op);
    FOR_TRAINABLE (e->m, unit, i)
        zero__body_pair(e->b, i, e->bucket[i], 0, bucket_bytes(e, i), reduced_in(e, i).id, 0,
                        gradient_of(e, i).bytes);
}

/* in_place: of accumulators; else of what the uses have written. */
static void reduce(struct emit *e, uint32_t unit, int in_place)
{
    struct zero__op op = {.kind = ZERO__REDUCE, .queue = ZERO__Q_REDUCE, .unit = unit};

    FOR_TRAINABLE (e->m, unit, i)
        op.wire_bytes += e->m->segments[i].shard * (e->r->ranks - 1) *
                         (in_place ? 4 : zero_dtype_bytes(e->m->segments[i].dtype));
    zero__body_op(e->b, &op);
    FOR_TRAINABLE (e->m, unit, i) {
        const struct zero__segment *s = &e->m->segments[i];
        struct place to = reduced_in(e, i);
        uint64_t size = in_place ? 4 : zero_dtype_bytes(s->dtype);
        zero__body_pair(e->b, i, in_place ? to.id : written_in(e, i), 0, s->padded * size, to.id,
                        to.own, gradient_of(e, i).own_bytes);
    }
}

static void publish(struct emit *e, uint32_t unit)
{
    struct zero__op op = {.kind = ZERO__PUBLISH, .queue = ZERO__Q_REDUCE, .unit = unit};

    FOR_TRAINABLE (e->m, unit, i)
        op.wire_bytes += gradient_of(e, i).own_bytes * (e->r->ranks - 1);
    zero__body_op(e->b, &op);
    FOR_TRAINABLE (e->m, unit, i) {
        struct zero__gradient g = gradient_of(e, i);
        struct place at = reduced_in(e, i);
        zero__body_pair(e->b, i, at.id, at.own, g.own_bytes, at.id, 0, g.bytes);
    }
}

void zero__sumsq_add(const struct emit *e, uint32_t queue, uint32_t unit, uint32_t segment,
                     uint32_t buffer, uint64_t off, uint64_t bytes, int first)
{
    struct zero__op op = {.kind = ZERO__SUMSQ, .queue = (uint8_t)queue, .unit = unit};
    uint64_t blocks = zero__sumsq_blocks(&e->m->segments[segment]);

    if (first)
        zero__body_op(e->b, &op);
    zero__body_pair(e->b, segment, buffer, off, bytes, e->s->partials,
                    e->s->homes[segment].partials * sizeof(double), blocks * sizeof(double));
}

/* Of the gradients that are about to leave, or are read for the last time. */
static void squares(struct emit *e, uint32_t unit)
{
    int n = 0;

    FOR_TRAINABLE (e->m, unit, i) {
        struct zero__gradient g = gradient_of(e, i);
        struct place at = reduced_in(e, i);
        if (g.tier != ZERO__T_DEVICE || e->s->homes[i].early)
            zero__sumsq_add(e, ZERO__Q_UPDATE, unit, i, at.id, at.own, g.own_bytes, n++ == 0);
    }
}

/* Room for the accumulators that lie elsewhere, and what earlier micro-batches have summed. */
static void sums_load(struct emit *e, uint32_t unit)
{
    struct zero__moves moves = {.unit = unit, .flags = ZERO__OP_SUMS};

    FOR_TRAINABLE (e->m, unit, i) {
        struct zero__gradient g = gradient_of(e, i);
        if (!sums_bytes(e, i))
            continue;
        e->sums[i] = zero__body_buffer(e->b, ZERO_CLASS_ACCUMULATORS, i, ZERO_NONE, g.bytes);
        zero__moves_add(e->s, &moves, &(struct zero__move){i, g.home, e->sums[i], 0, 0, g.bytes});
    }
    zero__moves_load(e->s, &moves, e->b);
}

/* Home: after the last micro-batch just what the update will read. */
static void home_store(struct emit *e, uint32_t unit, struct zero__moves *moves)
{
    moves->unit = unit;
    FOR_TRAINABLE (e->m, unit, i) {
        struct zero__gradient g = gradient_of(e, i);
        struct place at = reduced_in(e, i);
        struct zero__move x = {i, g.home, at.id, 0, 0, g.bytes};
        if (e->last && e->s->homes[i].early)
            continue;
        if (e->last)
            x = (struct zero__move){
                i,           g.home, at.id, g.used_off, g.used_bytes > g.own_bytes ? 0 : at.own,
                g.used_bytes};
        zero__moves_add(e->s, moves, &x);
    }
    zero__moves_store(e->s, moves, e->b);
}

/* ---- A unit's gradient ----------------------------------------------------------------------- */

/* What the last micro-batch adds to the others': whole sums, their squares. */
static void finish(struct emit *e, uint32_t unit)
{
    int shared = e->r->ranks > 1;

    if (shared && e->r->accum > 1 && e->r->boundary)
        reduce(e, unit, 1);
    if (shared && e->r->stage == 0)
        publish(e, unit);
    squares(e, unit);
}

/* What becomes of the reduced gradient: it goes home, or an update reads it here and now. */
static void hand_over(struct emit *e, uint32_t unit, struct zero__moves *moves)
{
    home_store(e, unit, moves);
    FOR_TRAINABLE (e->m, unit, i) {
        if (!e->tiles || !e->s->homes[i].early)
            continue;
        struct place at = reduced_in(e, i);
        e->brought[i].grad = at.id;
        e->brought[i].grad_off = e->s->homes[i].state_whole ? 0 : at.own;
    }
    zero__tiles_begin(e->tiles, e->b);
    zero__tiles_update(e->tiles, unit, e->b);
}

void zero__grad_close(struct emit *e, uint32_t unit)
{
    struct emit_retired *x = &e->retire[e->retire_tail];
    int alone = e->r->ranks == 1;

    sums_load(e, unit);
    if (e->r->accum > 1 && (alone || e->r->boundary))
        accumulate(e, unit);
    else if (!alone)
        reduce(e, unit, 0);
    if (e->last)
        finish(e, unit);
    hand_over(e, unit, &x->home);
    x->bytes = zero__unit_grad_bytes(e, unit);
    e->retire_tail += x->bytes > 0;
}

void zero__grad_finish(struct emit *e, uint32_t unit)
{
    struct zero__moves moves = {0};

    sums_load(e, unit);
    finish(e, unit);
    hand_over(e, unit, &moves);
}

/*
 * Parameters that peers read in place count as written by the fill, so that it waits for all uses
 * of them: the reduction behind it then tells the peers that this rank is done with reading.
 */
void zero__grad_zero(struct emit *e, uint32_t unit)
{
    struct zero__op op = {
        .kind = ZERO__FILL, .queue = ZERO__Q_CPU, .unit = unit, .flags = ZERO__OP_WHOLE};

    buckets_open(e, unit);
    zero__body_op(e->b, &op);
    FOR_TRAINABLE (e->m, unit, i) {
        const struct zero__segment *s = &e->m->segments[i];
        const struct zero__home *h = &e->s->homes[i];
        uint64_t size = zero_dtype_bytes(s->dtype);
        zero__body_access(e->b, written_in(e, i), i, ZERO__R_DST, 1, 0, s->padded * size);
        if (h->param_mapped)
            zero__body_access(e->b, h->param, i, ZERO__R_PARAM, 1, 0, s->shard * size);
    }
    zero__grad_close(e, unit);
}
