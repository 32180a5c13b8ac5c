/* SPDX-License-Identifier: Apache-2.0 */
/* What the processor computes in each use of a unit, and the memory for that; see network.h. */
#include <string.h>

#include "network.h"

/*
 * Logits of a training step are kept up to this size (with --recompute, which saves memory for
 * time, a smaller one), above it they are computed twice.
 */
#define KEEP_LOGITS_BYTES ((size_t)256 << 20)
#define KEEP_LOGITS_BYTES_RECOMPUTE ((size_t)64 << 20)

struct final {
    float *x, *stat, *vector;
};

/*
 * In training the region GPT2_HEAD has what the backward pass needs; without, and for scratch and
 * losses of a forward pass, there is GPT2_HEAD_FORWARD. `logits` and `scratch` are scratch, except
 * for the kept logits of training.
 */
struct head {
    float *normed, *d_normed, *stat, *loss, *logits, *scratch;
};

static struct gpt2_head head_of(const struct gpt2_shape *s, bool training)
{
    const size_t bytes = gpt2_rows(s) * s->model.vocab * sizeof(float);
    const size_t most = s->recompute ? KEEP_LOGITS_BYTES_RECOMPUTE : KEEP_LOGITS_BYTES;
    return (struct gpt2_head){gpt2_rows(s), s->model.width, s->model.vocab, s->dtype,
                              training && bytes <= most};
}

static size_t carve_final(const struct gpt2_shape *s, void *region, struct final *f)
{
    struct gpt2_bump b = {region, 0};
    f->x = gpt2_take(&b, gpt2_rows(s) * s->model.width * sizeof(float));
    f->stat = gpt2_take(&b, gpt2_rows(s) * 2 * sizeof(float));
    f->vector = gpt2_take(&b, (size_t)s->model.width * 5 * sizeof(float));
    return b.used;
}

static size_t carve_head(const struct gpt2_shape *s, bool training, void *region, struct head *f)
{
    const struct gpt2_head h = head_of(s, training);
    struct gpt2_bump b = {region, 0};
    f->normed = gpt2_take(&b, h.rows * h.width * sizeof(float));
    f->d_normed = training ? gpt2_take(&b, h.rows * h.width * sizeof(float)) : NULL;
    f->stat = gpt2_take(&b, h.rows * 2 * sizeof(float));
    f->loss = training ? NULL : gpt2_take(&b, h.rows * sizeof(float));
    f->logits = gpt2_take(&b, gpt2_head_logits(&h) * sizeof(float));
    f->scratch = gpt2_take(&b, gpt2_head_scratch(&h) * sizeof(float));
    return b.used;
}

static size_t region_bytes(const struct gpt2_shape *s, uint32_t region)
{
    const size_t rows = gpt2_rows(s), vector = (size_t)s->model.width * sizeof(float);
    struct final final;
    struct head head;

    switch (region) {
    case GPT2_STREAM:
    case GPT2_D_STREAM:
        return rows * vector;
    case GPT2_POSITION:
        return vector;
    case GPT2_WORK_FORWARD:
        return gpt2_block_work(s, 0);
    case GPT2_WORK_BACKWARD:
        return gpt2_block_work(s, 1);
    case GPT2_FINAL:
        return carve_final(s, NULL, &final);
    case GPT2_HEAD_FORWARD:
        return carve_head(s, false, NULL, &head);
    case GPT2_HEAD:
        return carve_head(s, true, NULL, &head);
    case GPT2_EMBED:
        return vector + gpt2_embed_scratch(s->model.vocab, rows) * sizeof(int32_t) + 64;
    case GPT2_BATCH:
    case GPT2_PRODUCTS:
        return 0;
    default:
        return gpt2_block_saved(s);
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

static void embed(struct gpt2_pass *p)
{
    float *x = gpt2_pass_region(p, GPT2_STREAM);

    if (!p->err)
        gpt2_embed_forward(p->params, p->tokens, gpt2_rows(p->shape), p->shape->model.width, x);
}

static void position(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    float *x = gpt2_pass_region(p, GPT2_STREAM), *vector = gpt2_pass_region(p, GPT2_POSITION);

    if (!p->err)
        gpt2_position_forward(p->params, s->batch, s->seq, s->model.width, x, vector);
}

static void block(struct gpt2_pass *p, uint32_t layer)
{
    float *x = gpt2_pass_region(p, GPT2_STREAM);
    void *saved = gpt2_pass_region(p, GPT2_SAVED + layer);
    void *work = gpt2_pass_region(p, GPT2_WORK_FORWARD);

    if (!p->err)
        gpt2_block_forward(p->shape, p->params, saved, work, x);
}

/* The final layer norm of the stream; its output goes to what the head uses. */
static void norm(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    const size_t rows = gpt2_rows(s), width = s->model.width;
    const float *x = gpt2_pass_region(p, GPT2_STREAM);
    struct final f;
    struct head head;

    carve_final(s, gpt2_pass_region(p, GPT2_FINAL), &f);
    carve_head(s, p->training, gpt2_pass_region(p, p->training ? GPT2_HEAD : GPT2_HEAD_FORWARD),
               &head);
    if (p->err)
        return;
    memcpy(f.x, x, rows * width * sizeof *x);
    gpt2_norm_stat(f.x, rows, width, f.stat);
    gpt2_norm_forward(&p->params[0], &p->params[1], f.x, f.stat, rows, width, head.normed,
                      f.vector);
}

/* Losses of the head, in training with all that its backward pass needs. */
static void losses(struct gpt2_pass *p)
{
    const struct gpt2_head h = head_of(p->shape, p->training);
    struct head f, t;

    carve_head(p->shape, false, gpt2_pass_region(p, GPT2_HEAD_FORWARD), &f);
    t = f;
    if (p->training)
        carve_head(p->shape, true, gpt2_pass_region(p, GPT2_HEAD), &t);
    if (p->err)
        return;
    gpt2_head_forward(&h, p->params, t.normed, p->targets, f.loss, t.stat,
                      h.keep ? t.logits : f.logits, f.scratch);
    memcpy(p->result, f.loss, h.rows * sizeof *p->result);
}

static void logits(struct gpt2_pass *p)
{
    const struct gpt2_head h = head_of(p->shape, false);
    struct head f;

    carve_head(p->shape, false, gpt2_pass_region(p, GPT2_HEAD_FORWARD), &f);
    if (!p->err)
        gpt2_head_row(&h, p->params, f.normed + p->row * h.width, p->result, f.scratch);
}

/* ---- Backward -------------------------------------------------------------------------------- */

static void d_head(struct gpt2_pass *p)
{
    const struct gpt2_head h = head_of(p->shape, true);
    struct head t;

    carve_head(p->shape, true, gpt2_pass_region(p, GPT2_HEAD), &t);
    if (!p->err)
        gpt2_head_backward(&h, p->params, t.normed, p->targets, t.stat, p->scale / (float)h.rows,
                           t.d_normed, t.logits, t.scratch);
}

static void d_norm(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    float *dx = gpt2_pass_region(p, GPT2_D_STREAM);
    struct head t;
    struct final f;

    carve_head(s, true, gpt2_pass_region(p, GPT2_HEAD), &t);
    carve_final(s, gpt2_pass_region(p, GPT2_FINAL), &f);
    if (!p->err)
        gpt2_norm_backward(&p->params[0], &p->params[1], f.x, f.stat, t.d_normed, gpt2_rows(s),
                           s->model.width, 0, dx, f.vector);
}

static void d_block(struct gpt2_pass *p, uint32_t layer)
{
    float *dx = gpt2_pass_region(p, GPT2_D_STREAM);
    void *saved = gpt2_pass_region(p, GPT2_SAVED + layer);
    void *work = gpt2_pass_region(p, GPT2_WORK_BACKWARD);

    if (!p->err)
        gpt2_block_backward(p->shape, p->params, saved, work, dx);
}

static void d_position(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    float *dx = gpt2_pass_region(p, GPT2_D_STREAM), *vector = gpt2_pass_region(p, GPT2_EMBED);

    if (!p->err)
        gpt2_position_backward(p->params, dx, s->batch, s->seq, s->model.context, s->model.width,
                               vector);
}

static void d_embed(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    const float *dx = gpt2_pass_region(p, GPT2_D_STREAM);
    struct gpt2_bump b = {gpt2_pass_region(p, GPT2_EMBED), 0};

    if (p->err)
        return;
    float *vector = gpt2_take(&b, s->model.width * sizeof *vector);
    int32_t *chains = gpt2_take(&b, 0);
    gpt2_embed_backward(p->params, p->tokens, dx, gpt2_rows(s), s->model.vocab, s->model.width,
                        chains, vector);
}

const struct gpt2_math gpt2_cpu_math = {
    .region_bytes = region_bytes,
    .embed = embed,
    .position = position,
    .block = block,
    .norm = norm,
    .losses = losses,
    .logits = logits,
    .d_head = d_head,
    .d_norm = d_norm,
    .d_block = d_block,
    .d_position = d_position,
    .d_embed = d_embed,
};
