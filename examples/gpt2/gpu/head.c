/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The final layer norm, the output layer and the loss on the GPU. As on the host the logits are
 * worked on in blocks of the vocabulary, larger ones, and kept from the forward to the backward
 * pass where they are small.
 */
#include "inside.h"

#define BLOCK_FLOATS ((size_t)64 << 20)
#define KEEP_LOGITS_BYTES ((size_t)2 << 30)
#define KEEP_LOGITS_BYTES_RECOMPUTE ((size_t)64 << 20)

struct final {
    float *x, *stat, *partial;
};

/* d_normed in training only. */
struct head {
    void *normed;
    float *d_normed, *stat, *logits;
};

/* Rows of the vocabulary that are worked on at once. */
static size_t block_rows(const struct gpt2_shape *s)
{
    size_t n = BLOCK_FLOATS / gpt2_rows(s) / 64 * 64;

    if (n < 64)
        n = 64;
    return n < s->model.vocab ? n : s->model.vocab;
}

static bool keeps(const struct gpt2_shape *s)
{
    const size_t bytes = gpt2_rows(s) * s->model.vocab * sizeof(float);

    return bytes <= (s->recompute ? KEEP_LOGITS_BYTES_RECOMPUTE : KEEP_LOGITS_BYTES);
}

static size_t carve_final(const struct gpt2_shape *s, void *region, struct final *f)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;
    struct gpt2_bump b = {region, 0};

    f->x = gpt2_take(&b, rows * width * sizeof(float));
    f->stat = gpt2_take(&b, rows * 2 * sizeof(float));
    f->partial = gpt2_take(&b, gpt2_gpu_norm_partial(rows, width) * sizeof(float));
    return b.used;
}

static size_t carve_head(const struct gpt2_shape *s, bool training, void *region, struct head *h)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;
    const size_t columns = training && keeps(s) ? s->model.vocab : block_rows(s);
    struct gpt2_bump b = {region, 0};

    h->normed = gpt2_take(&b, rows * width * zero_dtype_bytes(s->dtype));
    h->d_normed = training ? gpt2_take(&b, rows * width * sizeof(float)) : NULL;
    h->stat = gpt2_take(&b, rows * 2 * sizeof(float));
    h->logits = gpt2_take(&b, rows * columns * sizeof(float));
    return b.used;
}

size_t gpt2_gpu_final(const struct gpt2_shape *s)
{
    struct final f;
    return carve_final(s, NULL, &f);
}

size_t gpt2_gpu_head(const struct gpt2_shape *s, bool training)
{
    struct head h;
    return carve_head(s, training, NULL, &h);
}

/* What the pass at hand uses. */
static struct head head_of(struct gpt2_pass *p)
{
    struct head h = {0};
    void *region = gpt2_pass_region(p, p->training ? GPT2_HEAD : GPT2_HEAD_FORWARD);

    if (!p->err)
        carve_head(p->shape, p->training, region, &h);
    return h;
}

static struct final final_of(struct gpt2_pass *p)
{
    struct final f = {0};
    void *region = gpt2_pass_region(p, GPT2_FINAL);

    if (!p->err)
        carve_final(p->shape, region, &f);
    return f;
}

/* ---- Forward --------------------------------------------------------------------------------- */

void gpt2_gpu_norm_final(struct gpt2_pass *p)
{
    const float *x = gpt2_pass_region(p, GPT2_STREAM);
    const struct final f = final_of(p);
    const struct head h = head_of(p);

    /* The stream does not live until the backward pass. */
    gpt2_gpu_norm_forward(
        p,
        &(struct gpt2_norm_place){.w = &p->params[0], .stat = f.stat, .kept = f.x, .y = h.normed},
        x);
}

/* Row v of the token embedding, or of its gradient. */
static void *row(const struct gpt2_pass *p, const void *matrix, size_t v)
{
    return (char *)(uintptr_t)matrix +
           v * p->shape->model.width * zero_dtype_bytes(p->shape->dtype);
}

/* Logits v … v + n - 1 of `rows` rows. */
static void block_logits(struct gpt2_pass *p, const void *x, size_t rows, size_t v, size_t n,
                         float *logits)
{
    const size_t width = p->shape->model.width;
    const uint32_t dtype = p->shape->dtype;

    gpt2_product(p, false, true, rows, n, width, gpt2_matrix(x, dtype, width),
                 gpt2_matrix(row(p, p->params[0].value, v), dtype, width), 0,
                 gpt2_matrix(logits, ZERO_F32, n));
}

void gpt2_gpu_losses(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    const size_t rows = gpt2_rows(s), vocab = s->model.vocab, step = block_rows(s);
    const bool keep = p->training && keeps(s);
    const struct head h = head_of(p);
    const struct gpt2_gpu_batch batch = gpt2_gpu_batch_of(p);

    for (size_t v = 0; v < vocab; v += step) {
        const size_t n = vocab - v < step ? vocab - v : step;
        float *logits = keep ? h.logits + v * rows : h.logits;
        block_logits(p, h.normed, rows, v, n, logits);
        GPT2_RUN(p, loss,
                 &(struct gpt2_gpu_loss){.logits = logits,
                                         .targets = batch.targets,
                                         .stat = h.stat,
                                         .loss = batch.result,
                                         .rows = rows,
                                         .first = v,
                                         .n = n,
                                         .last = v + n == vocab});
    }
}

void gpt2_gpu_logits(struct gpt2_pass *p)
{
    const size_t vocab = p->shape->model.vocab, step = block_rows(p->shape);
    const struct head h = head_of(p);
    const struct gpt2_gpu_batch batch = gpt2_gpu_batch_of(p);

    for (size_t v = 0; v < vocab; v += step)
        block_logits(p, row(p, h.normed, p->row), 1, v, vocab - v < step ? vocab - v : step,
                     batch.result + v);
}

/* ---- Backward -------------------------------------------------------------------------------- */

void gpt2_gpu_d_head(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    const size_t rows = gpt2_rows(s), vocab = s->model.vocab, step = block_rows(s);
    const size_t width = s->model.width, per_float = sizeof(float) / zero_dtype_bytes(s->dtype);
    const struct gpt2_param *w = &p->params[0];
    const struct head h = head_of(p);
    const struct gpt2_gpu_batch batch = gpt2_gpu_batch_of(p);

    for (size_t v = 0; v < vocab; v += step) {
        const size_t n = vocab - v < step ? vocab - v : step;
        float *logits = keeps(s) ? h.logits + v * rows : h.logits;
        const struct gpt2_matrix d = gpt2_matrix(logits, s->dtype, n * per_float);
        if (!keeps(s))
            block_logits(p, h.normed, rows, v, n, logits);
        GPT2_RUN(p, loss_backward,
                 &(struct gpt2_gpu_loss_backward){.logits = logits,
                                                  .targets = batch.targets,
                                                  .stat = h.stat,
                                                  .rows = rows,
                                                  .first = v,
                                                  .n = n,
                                                  .dtype = s->dtype,
                                                  .scale = p->scale / (float)rows});
        gpt2_product(p, false, false, rows, width, n, d,
                     gpt2_matrix(row(p, w->value, v), s->dtype, width), v == 0 ? 0 : 1,
                     gpt2_matrix(h.d_normed, ZERO_F32, width));
        gpt2_product(p, true, false, n, width, rows, d, gpt2_matrix(h.normed, s->dtype, width),
                     w->beta, gpt2_matrix(row(p, w->gradient, v), s->dtype, width));
    }
}

void gpt2_gpu_d_norm(struct gpt2_pass *p)
{
    float *dx = gpt2_pass_region(p, GPT2_D_STREAM);
    const struct final f = final_of(p);
    const struct head h = head_of(p);

    if (!p->err)
        gpt2_gpu_norm_backward(p, &p->params[0], &p->params[1], f.x, f.stat, h.d_normed, ZERO_F32,
                               0, dx, f.partial);
}
