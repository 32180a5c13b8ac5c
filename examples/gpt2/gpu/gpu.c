/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a GPU, its memory, embeddings, and a batch on its way; see gpu.h. */
#include "gpu.h"

#include <errno.h>
#include <string.h>

#include "inside.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Where things are in the region GPT2_BATCH, or in the staging; base NULL: only to_bytes. Returns
 * the bytes of all. */
static size_t carve_batch(const struct gpt2_shape *s, void *base, struct gpt2_gpu_batch *b)
{
    const size_t rows = gpt2_rows(s), vocab = s->model.vocab;
    struct gpt2_bump at = {base, 0};

    b->tokens = gpt2_take(&at, rows * sizeof *b->tokens);
    b->targets = gpt2_take(&at, rows * sizeof *b->targets);
    b->order = gpt2_take(&at, rows * sizeof *b->order);
    b->start = gpt2_take(&at, (vocab + 1) * sizeof *b->start);
    b->to_bytes = at.used;
    b->result = gpt2_take(&at, (rows > vocab ? rows : vocab) * sizeof *b->result);
    return at.used;
}

static size_t region_bytes(const struct gpt2_shape *s, uint32_t region)
{
    struct gpt2_gpu_batch batch;

    switch (region) {
    case GPT2_STREAM:
    case GPT2_D_STREAM:
        return gpt2_rows(s) * s->model.width * sizeof(float);
    case GPT2_WORK_FORWARD:
        return gpt2_gpu_block_work(s, false);
    case GPT2_WORK_BACKWARD:
        return gpt2_gpu_block_work(s, true);
    case GPT2_FINAL:
        return gpt2_gpu_final(s);
    case GPT2_HEAD_FORWARD:
        return gpt2_gpu_head(s, false);
    case GPT2_HEAD:
        return gpt2_gpu_head(s, true);
    case GPT2_BATCH:
        return carve_batch(s, NULL, &batch);
    case GPT2_PRODUCTS:
        return GPT2_BLAS_BYTES;
    case GPT2_POSITION:
    case GPT2_EMBED:
        return 0;
    default:
        return gpt2_gpu_block_saved(s);
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int shape_check(struct gpt2_cuda *c, const struct gpt2_shape *s)
{
    const uint32_t features = s->model.width / s->model.n_heads;
    const uint64_t heads = (uint64_t)s->batch * s->model.n_heads;

    if (features != 32 && features != 64)
        return gpt2_cuda_fail(c, -ENOTSUP,
                              "preset %s has heads of %u features, and the GPU's attention is for "
                              "32 or 64: train it on the host with ZERO_DEVICE=host",
                              s->model.name, features);
    if (s->model.width > GPT2_WIDTH_MAX)
        return gpt2_cuda_fail(c, -ENOTSUP,
                              "preset %s is %u wide, and the GPU's layer norm takes %u at most: "
                              "train it on the host with ZERO_DEVICE=host",
                              s->model.name, s->model.width, GPT2_WIDTH_MAX);
    if (heads > 65535 || gpt2_chunks(gpt2_rows(s)) > 65535)
        return gpt2_cuda_fail(c, -ENOTSUP,
                              "--batch %u of %u tokens is more than a GPU's grid takes: take a "
                              "smaller one, and more of them with --accum",
                              s->batch, s->seq);
    return 0;
}

int gpt2_gpu_open(struct gpt2_gpu *g, const struct gpt2_shape *s, const char *cublas, void *stream,
                  int (*wait)(void *arg), void *wait_arg)
{
    struct gpt2_gpu_batch batch;
    int err;

    *g = (struct gpt2_gpu){.wait = wait, .wait_arg = wait_arg};
    err = gpt2_cuda_open(&g->cuda, stream);
    if (!err)
        err = shape_check(&g->cuda, s);
    if (!err)
        err = gpt2_cuda_enter(&g->cuda);
    if (err)
        return err;
    err = gpt2_blas_open(&g->blas, &g->cuda, cublas);
    const size_t bytes = carve_batch(s, NULL, &batch);
    if (!err && g->cuda.host_alloc(&g->staging, bytes, 0))
        err = gpt2_cuda_fail(&g->cuda, -ENOMEM,
                             "no %zu bytes of pinned memory for a batch: the host's memory is used "
                             "up",
                             bytes);
    gpt2_cuda_leave(&g->cuda);
    return err;
}

void gpt2_gpu_close(struct gpt2_gpu *g)
{
    if (g->cuda.context && !gpt2_cuda_enter(&g->cuda)) {
        gpt2_blas_close(&g->blas);
        if (g->staging)
            g->cuda.host_free(g->staging);
        gpt2_cuda_leave(&g->cuda);
    }
    g->staging = NULL;
    gpt2_cuda_close(&g->cuda);
}

/* ---- A batch --------------------------------------------------------------------------------- */

static struct gpt2_gpu_batch staging_of(struct gpt2_pass *p)
{
    struct gpt2_gpu_batch b;

    carve_batch(p->shape, gpt2_gpu_of(p)->staging, &b);
    return b;
}

struct gpt2_gpu_batch gpt2_gpu_batch_of(struct gpt2_pass *p)
{
    struct gpt2_gpu_batch b = {0};
    void *region = gpt2_pass_region(p, GPT2_BATCH);

    if (!p->err)
        carve_batch(p->shape, region, &b);
    return b;
}

/* Positions by token, in order: counted, then dealt out. */
static void sort_tokens(const int32_t *tokens, size_t rows, size_t vocab, int32_t *order,
                        int32_t *start)
{
    memset(start, 0, (vocab + 1) * sizeof *start);
    for (size_t r = 0; r < rows; r++)
        start[tokens[r] + 1]++;
    for (size_t v = 0; v < vocab; v++)
        start[v + 1] += start[v];
    for (size_t r = 0; r < rows; r++)
        order[start[tokens[r]]++] = (int32_t)r;
    memmove(start + 1, start, vocab * sizeof *start);
    start[0] = 0;
}

/* The last pass has waited, so nothing reads the staging any more. */
static void begin(struct gpt2_pass *p)
{
    const size_t rows = gpt2_rows(p->shape);
    struct gpt2_gpu *g = gpt2_gpu_of(p);
    const struct gpt2_gpu_batch b = staging_of(p);
    void *region = gpt2_pass_region(p, GPT2_BATCH), *scratch = gpt2_pass_region(p, GPT2_PRODUCTS);

    memcpy(b.tokens, p->tokens, rows * sizeof *b.tokens);
    if (p->targets)
        memcpy(b.targets, p->targets, rows * sizeof *b.targets);
    if (p->training)
        sort_tokens(b.tokens, rows, p->shape->model.vocab, b.order, b.start);
    int err = gpt2_cuda_enter(&g->cuda);
    g->entered = !err;
    if (!p->err)
        p->err = err;
    gpt2_copy(p, region, b.tokens, b.to_bytes);
    if (!p->err)
        p->err = gpt2_blas_begin(&g->blas, scratch);
}

/* Losses or logits come back; after an error what was enqueued has to end all the same. */
static void end(struct gpt2_pass *p)
{
    const size_t n = p->targets ? gpt2_rows(p->shape) : p->shape->model.vocab;
    const struct gpt2_gpu_batch b = staging_of(p);
    struct gpt2_gpu *g = gpt2_gpu_of(p);

    if (!p->err)
        gpt2_copy(p, b.result, gpt2_gpu_batch_of(p).result, n * sizeof *b.result);
    if (g->entered)
        gpt2_cuda_leave(&g->cuda);
    g->entered = false;
    int err = g->wait(g->wait_arg);
    if (!p->err)
        p->err = err;
    if (!p->err)
        memcpy(p->result, b.result, n * sizeof *b.result);
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

static void embed(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    float *x = gpt2_pass_region(p, GPT2_STREAM);
    const struct gpt2_gpu_batch b = gpt2_gpu_batch_of(p);

    GPT2_RUN(p, embed,
             &(struct gpt2_gpu_embed){.x = x,
                                      .w = p->params[0].value,
                                      .tokens = b.tokens,
                                      .rows = gpt2_rows(s),
                                      .width = s->model.width,
                                      .dtype = s->dtype});
}

static void position(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    float *x = gpt2_pass_region(p, GPT2_STREAM);

    GPT2_RUN(p, position,
             &(struct gpt2_gpu_position){.x = x,
                                         .w = p->params[0].value,
                                         .rows = gpt2_rows(s),
                                         .width = s->model.width,
                                         .seq = s->seq,
                                         .dtype = s->dtype});
}

static void d_position(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    const float *dx = gpt2_pass_region(p, GPT2_D_STREAM);

    GPT2_RUN(p, position_backward,
             &(struct gpt2_gpu_position_backward){.gradient = p->params[0].gradient,
                                                  .dx = dx,
                                                  .batch = s->batch,
                                                  .seq = s->seq,
                                                  .context = s->model.context,
                                                  .width = s->model.width,
                                                  .dtype = s->dtype,
                                                  .beta = p->params[0].beta});
}

static void d_embed(struct gpt2_pass *p)
{
    const struct gpt2_shape *s = p->shape;
    const float *dx = gpt2_pass_region(p, GPT2_D_STREAM);
    const struct gpt2_gpu_batch b = gpt2_gpu_batch_of(p);

    GPT2_RUN(p, embed_backward,
             &(struct gpt2_gpu_embed_backward){.gradient = p->params[0].gradient,
                                               .dx = dx,
                                               .order = b.order,
                                               .start = b.start,
                                               .vocab = s->model.vocab,
                                               .width = s->model.width,
                                               .dtype = s->dtype,
                                               .beta = p->params[0].beta});
}

const struct gpt2_math gpt2_gpu_math = {
    .region_bytes = region_bytes,
    .begin = begin,
    .embed = embed,
    .position = position,
    .block = gpt2_gpu_block,
    .norm = gpt2_gpu_norm_final,
    .losses = gpt2_gpu_losses,
    .logits = gpt2_gpu_logits,
    .d_head = gpt2_gpu_d_head,
    .d_norm = gpt2_gpu_d_norm,
    .d_block = gpt2_gpu_d_block,
    .d_position = d_position,
    .d_embed = d_embed,
    .end = end,
};
