/* SPDX-License-Identifier: Apache-2.0 */
/* Every make and drop advances time by one; sizes follow from the shapes of the tensors. */
#include "gpt2_schedule.h"

#include <stdlib.h>
#include <string.h>

#define MAX_UNITS 64
#define NONE UINT32_MAX

const struct gpt2_shape gpt2_small = {
    .layers = 12,
    .d = 768,
    .heads = 12,
    .vocab = 50304,
    .seq = 1024,
    .batch = 12,
    .world = 8,
    .prefetch = 2,
    .bucket_bytes = 25 << 20,
    .loss_chunks = 1,
    .micro_steps = 2,
    .steps = 3,
};

const struct gpt2_shape gpt2_xl = {
    .layers = 48,
    .d = 1600,
    .heads = 25,
    .vocab = 50304,
    .seq = 1024,
    .batch = 12,
    .world = 8,
    .prefetch = 2,
    .bucket_bytes = 25 << 20,
    .loss_chunks = 8,
    .micro_steps = 2,
    .steps = 3,
    .recompute = true,
    .flash = true,
};

/* The tensors that a block keeps for its backward pass. */
enum saved { X, LN1, ST1, QKV, ATT, LSE, X1, LN2, ST2, FC, GE, N_SAVED };

struct run {
    const struct gpt2_shape *o;
    struct schedule *s;
    uint64_t unit_elems[MAX_UNITS];
    uint32_t n_units;
    uint32_t gathered[MAX_UNITS];
    uint32_t bucket, bucket_out[2][2], n_pending; /* a bucket and its reduced shard */
    uint64_t bucket_fill, bucket_cap;
    uint64_t tokens; /* of a micro-step */
};

static uint32_t make(struct run *r, uint64_t bytes)
{
    struct schedule *s = r->s;
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->buffers = realloc(s->buffers, s->room * sizeof *s->buffers);
        if (!s->buffers)
            abort();
    }
    s->buffers[s->n] = (struct zero__plan_buffer){.bytes = bytes, .first = s->now++, .last = NONE};
    return s->n++;
}

static void drop(struct run *r, uint32_t buffer)
{
    if (buffer != NONE)
        r->s->buffers[buffer].last = r->s->now++;
}

static uint64_t shard(const struct run *r, uint64_t elems)
{
    return (elems + r->o->world - 1) / r->o->world;
}

static void optimizer_states_make(struct run *r)
{
    for (uint32_t u = 0; u < r->n_units; u++) {
        make(r, 4 * shard(r, r->unit_elems[u]));
        make(r, 4 * shard(r, r->unit_elems[u]));
    }
}

static void model_make(struct run *r)
{
    uint64_t d = r->o->d;
    const uint64_t block[] = {2 * d, 3 * d * d, 3 * d, d * d,     d,
                              2 * d, 4 * d * d, 4 * d, 4 * d * d, d};
    const uint64_t embedding[] = {r->o->vocab * d, r->o->seq * d}, head[] = {2 * d};

    r->n_units = (uint32_t)r->o->layers + 2;
    for (uint32_t u = 0; u < r->n_units; u++) {
        bool first = u == 0, last = u == r->n_units - 1;
        const uint64_t *elems = first ? embedding : last ? head : block;
        uint32_t n = first ? 2 : last ? 1 : 10;
        r->unit_elems[u] = 0;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t whole = make(r, 4 * elems[k]), half = make(r, 2 * elems[k]);
            drop(r, whole);
            make(r, 2 * shard(r, elems[k]));
            drop(r, half);
            r->unit_elems[u] += elems[k];
        }
    }
    for (uint32_t u = 0; u < r->n_units; u++) {
        make(r, 4 * shard(r, r->unit_elems[u]));
        make(r, 4 * shard(r, r->unit_elems[u]));
    }
}

/* Gathers the unit and the next ones; step is +1 in the forward pass, -1 in the backward pass. */
static void units_gather(struct run *r, int unit, int step)
{
    for (int k = 0; k <= (int)r->o->prefetch; k++, unit += step) {
        if (unit < (step > 0 ? 0 : 1) || unit >= (int)r->n_units)
            return;
        uint64_t elems = r->unit_elems[unit];
        if (unit == (int)r->n_units - 1) /* the tied embedding */
            elems += r->o->vocab * r->o->d;
        if (r->gathered[unit] == NONE)
            r->gathered[unit] = make(r, 2 * shard(r, elems) * r->o->world);
    }
}

static void unit_release(struct run *r, uint32_t unit)
{
    drop(r, r->gathered[unit]);
    r->gathered[unit] = NONE;
}

static void buckets_drain(struct run *r, uint32_t keep)
{
    while (r->n_pending > keep) {
        uint32_t bucket = r->bucket_out[0][0], out = r->bucket_out[0][1];
        memmove(r->bucket_out[0], r->bucket_out[1], sizeof r->bucket_out[0]);
        r->n_pending--;
        uint32_t wide = make(r, 2 * r->s->buffers[out].bytes);
        drop(r, wide);
        drop(r, out);
        drop(r, bucket);
    }
}

static void bucket_flush(struct run *r)
{
    if (r->bucket == NONE)
        return;
    buckets_drain(r, 1);
    uint32_t out = make(r, 2 * shard(r, r->bucket_fill / 2));
    r->bucket_out[r->n_pending][0] = r->bucket;
    r->bucket_out[r->n_pending++][1] = out;
    r->bucket = NONE;
}

static void gradient_add(struct run *r, uint64_t elems)
{
    uint64_t bytes = 2 * elems;
    uint32_t g = make(r, bytes);

    if (r->bucket != NONE && r->bucket_fill + bytes > r->bucket_cap)
        bucket_flush(r);
    if (r->bucket == NONE) {
        r->bucket_cap = bytes > r->o->bucket_bytes ? bytes : r->o->bucket_bytes;
        r->bucket = make(r, r->bucket_cap);
        r->bucket_fill = 0;
    }
    r->bucket_fill += bytes;
    drop(r, g);
}

static void saved_drop(struct run *r, uint32_t *saved, enum saved k)
{
    drop(r, saved[k]);
    saved[k] = NONE;
}

/* Returns the output; without keep only that survives. */
static uint32_t block_forward(struct run *r, uint32_t x, bool keep, uint32_t *saved)
{
    uint64_t nd = r->tokens * r->o->d;
    uint64_t scores = r->o->batch * r->o->heads * r->o->seq;
    uint32_t tmp;

    saved[X] = x;
    saved[LN1] = make(r, 2 * nd), saved[ST1] = make(r, 8 * r->tokens);
    saved[QKV] = make(r, 6 * nd);
    if (!keep)
        saved_drop(r, saved, LN1), saved_drop(r, saved, ST1);
    if (r->o->flash) {
        saved[ATT] = make(r, 2 * nd), saved[LSE] = make(r, 4 * scores);
    } else {
        tmp = make(r, 2 * scores * r->o->seq);
        saved[LSE] = make(r, 2 * scores * r->o->seq);
        drop(r, tmp);
        tmp = make(r, 2 * nd);
        saved[ATT] = make(r, 2 * nd);
        drop(r, tmp);
    }
    if (!keep)
        saved_drop(r, saved, QKV), saved_drop(r, saved, LSE);
    tmp = make(r, 2 * nd);
    if (!keep)
        saved_drop(r, saved, ATT);
    saved[X1] = make(r, 2 * nd);
    drop(r, tmp);
    saved[LN2] = make(r, 2 * nd), saved[ST2] = make(r, 8 * r->tokens);
    saved[FC] = make(r, 8 * nd);
    if (!keep)
        saved_drop(r, saved, LN2), saved_drop(r, saved, ST2);
    saved[GE] = make(r, 8 * nd);
    if (!keep)
        saved_drop(r, saved, FC);
    tmp = make(r, 2 * nd);
    if (!keep)
        saved_drop(r, saved, GE);
    uint32_t y = make(r, 2 * nd);
    drop(r, tmp);
    if (!keep)
        saved_drop(r, saved, X1);
    return y;
}

static void attention_backward(struct run *r, uint32_t *saved, uint32_t da, uint32_t *dqkv)
{
    uint64_t nd = r->tokens * r->o->d;
    uint64_t scores = r->o->batch * r->o->heads * r->o->seq;

    if (r->o->flash) {
        uint32_t delta = make(r, 4 * scores);
        *dqkv = make(r, 6 * nd);
        drop(r, delta), drop(r, da);
        saved_drop(r, saved, LSE);
    } else {
        uint32_t dp = make(r, 2 * scores * r->o->seq), dv = make(r, 2 * nd);
        drop(r, da);
        uint32_t ds = make(r, 2 * scores * r->o->seq);
        drop(r, dp);
        saved_drop(r, saved, LSE);
        uint32_t dq = make(r, 2 * nd), dk = make(r, 2 * nd);
        drop(r, ds);
        *dqkv = make(r, 6 * nd);
        drop(r, dq), drop(r, dk), drop(r, dv);
    }
    saved_drop(r, saved, QKV);
}

static uint32_t block_backward(struct run *r, uint32_t *saved, uint32_t dy)
{
    uint64_t d = r->o->d, nd = r->tokens * d;
    uint32_t dqkv;

    uint32_t dge = make(r, 8 * nd);
    gradient_add(r, 4 * d * d), gradient_add(r, d);
    saved_drop(r, saved, GE);
    uint32_t dfc = make(r, 8 * nd);
    drop(r, dge);
    saved_drop(r, saved, FC);
    uint32_t dl2 = make(r, 2 * nd);
    gradient_add(r, 4 * d * d), gradient_add(r, 4 * d);
    drop(r, dfc);
    saved_drop(r, saved, LN2);
    uint32_t dx1 = make(r, 2 * nd);
    gradient_add(r, 2 * d);
    drop(r, dl2);
    saved_drop(r, saved, ST2), saved_drop(r, saved, X1);
    uint32_t sum1 = make(r, 2 * nd);
    drop(r, dx1), drop(r, dy);
    uint32_t da = make(r, 2 * nd);
    gradient_add(r, d * d), gradient_add(r, d);
    saved_drop(r, saved, ATT);
    attention_backward(r, saved, da, &dqkv);
    uint32_t dl1 = make(r, 2 * nd);
    gradient_add(r, 3 * d * d), gradient_add(r, 3 * d);
    drop(r, dqkv);
    saved_drop(r, saved, LN1);
    uint32_t dxp = make(r, 2 * nd);
    gradient_add(r, 2 * d);
    drop(r, dl1);
    saved_drop(r, saved, ST1), saved_drop(r, saved, X);
    uint32_t dx = make(r, 2 * nd);
    drop(r, dxp), drop(r, sum1);
    return dx;
}

/* Forward and backward of the loss; returns the tied head's weight gradient, made inside. */
static uint32_t loss_run(struct run *r, uint32_t *d_lnf, uint32_t *loss)
{
    uint64_t v = r->o->vocab, chunks = r->o->loss_chunks;
    uint64_t part = (r->tokens + chunks - 1) / chunks;
    uint32_t weight = NONE, logits, wide, soft, d_logits;

    if (chunks > 1)
        *d_lnf = make(r, 2 * r->tokens * r->o->d), weight = make(r, 2 * v * r->o->d);
    *loss = make(r, 4);
    for (uint64_t c = 0; c < chunks; c++) {
        logits = make(r, 2 * part * v);
        wide = make(r, 4 * part * v);
        if (chunks > 1)
            drop(r, logits);
        soft = make(r, 4 * part * v);
        drop(r, wide);
        if (chunks == 1) {
            wide = make(r, 4 * part * v);
            drop(r, soft);
        }
        d_logits = make(r, 2 * part * v);
        drop(r, chunks > 1 ? soft : wide);
        if (chunks > 1) {
            drop(r, make(r, 2 * v * r->o->d));
            drop(r, d_logits);
        }
    }
    if (chunks == 1) {
        *d_lnf = make(r, 2 * r->tokens * r->o->d), weight = make(r, 2 * v * r->o->d);
        drop(r, d_logits), drop(r, logits);
    }
    return weight;
}

static void micro_step(struct run *r)
{
    uint64_t v = r->o->vocab, d = r->o->d, nd = r->tokens * d;
    uint32_t saved[MAX_UNITS][N_SAVED], d_lnf = 0, loss = 0, top = r->n_units - 1;

    uint32_t ids = make(r, 8 * r->tokens), targets = make(r, 8 * r->tokens);
    units_gather(r, 0, 1);
    uint32_t te = make(r, 2 * nd), pe = make(r, 2 * r->o->seq * d), x = make(r, 2 * nd);
    drop(r, te), drop(r, pe);
    unit_release(r, 0);
    for (uint32_t u = 1; u < top; u++) {
        units_gather(r, (int)u, 1);
        x = block_forward(r, x, !r->o->recompute, saved[u]);
        unit_release(r, u);
    }
    units_gather(r, (int)top, 1);
    uint32_t lnf = make(r, 2 * nd), stf = make(r, 8 * r->tokens);
    uint32_t d_head = loss_run(r, &d_lnf, &loss);
    uint32_t dx = make(r, 2 * nd);
    gradient_add(r, 2 * d);
    drop(r, d_lnf), drop(r, lnf), drop(r, stf), drop(r, x);
    unit_release(r, top);
    for (uint32_t u = top - 1; u > 0; u--) {
        units_gather(r, (int)u, -1);
        if (r->o->recompute)
            drop(r, block_forward(r, saved[u][X], true, saved[u]));
        dx = block_backward(r, saved[u], dx);
        buckets_drain(r, 1);
        unit_release(r, u);
    }
    drop(r, make(r, 2 * v * d));
    gradient_add(r, r->o->seq * d);
    drop(r, dx);
    gradient_add(r, v * d);
    drop(r, d_head);
    bucket_flush(r);
    buckets_drain(r, 0);
    drop(r, ids), drop(r, targets), drop(r, loss);
}

static void optimizer_step(struct run *r, bool first)
{
    uint32_t root[MAX_UNITS], update[MAX_UNITS];

    if (first)
        optimizer_states_make(r);
    for (uint32_t u = 0; u < r->n_units; u++)
        root[u] = make(r, 4 * shard(r, r->unit_elems[u]));
    for (uint32_t u = 0; u < r->n_units; u++)
        update[u] = make(r, 4 * shard(r, r->unit_elems[u]));
    for (uint32_t u = 0; u < r->n_units; u++)
        drop(r, root[u]);
    for (uint32_t u = 0; u < r->n_units; u++)
        drop(r, update[u]);
    for (uint32_t u = 0; u < r->n_units; u++)
        drop(r, make(r, 2 * shard(r, r->unit_elems[u])));
}

void gpt2_schedule_make(const struct gpt2_shape *shape, struct schedule *out)
{
    struct run r = {.o = shape, .s = out, .bucket = NONE, .tokens = shape->batch * shape->seq};

    memset(out, 0, sizeof *out);
    memset(r.gathered, 0xff, sizeof r.gathered);
    if (shape->layers + 2 > MAX_UNITS)
        abort();
    model_make(&r);
    for (int step = 0; step < shape->steps; step++) {
        for (int k = 0; k < shape->micro_steps; k++)
            micro_step(&r);
        optimizer_step(&r, step == 0);
    }
    for (uint32_t i = 0; i < out->n; i++)
        if (out->buffers[i].last == NONE)
            out->buffers[i].last = out->now;
}
