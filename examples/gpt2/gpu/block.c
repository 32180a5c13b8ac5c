/* SPDX-License-Identifier: Apache-2.0 */
/* A transformer block on the GPU: the same steps as ../block.c, with less in fp32. */
#include <math.h>

#include "inside.h"

/* What the backward pass needs; all but x can be computed again from x. */
struct saved {
    float *x, *stat1;
    void *qkv;
    float *softmax;
    void *attention;
    float *middle, *stat2;
    void *fc; /* before bias and GELU */
};

struct work {
    void *normed, *wide;
    /* Backward only. */
    void *d_wide, *d_normed, *dy;
    float *delta, *partial;
    struct saved again; /* where the forward pass lies that was computed again */
};

/* One block's pass. */
struct block {
    struct gpt2_pass *p;
    const struct gpt2_param *w;
    size_t rows, width;
    uint32_t dtype, heads;
    struct saved v;
    struct work k;
};

static void carve_rest(const struct gpt2_shape *s, struct gpt2_bump *b, struct saved *v)
{
    const size_t rows = gpt2_rows(s), wide = rows * s->model.width;
    const size_t each = zero_dtype_bytes(s->dtype);

    v->stat1 = gpt2_take(b, 2 * rows * sizeof(float));
    v->qkv = gpt2_take(b, 3 * wide * each);
    v->softmax = gpt2_take(b, 2 * rows * s->model.n_heads * sizeof(float));
    v->attention = gpt2_take(b, wide * each);
    v->middle = gpt2_take(b, wide * sizeof(float));
    v->stat2 = gpt2_take(b, 2 * rows * sizeof(float));
    v->fc = gpt2_take(b, 4 * wide * each);
}

/* With recomputation the region holds x alone. */
static size_t carve_saved(const struct gpt2_shape *s, void *region, struct saved *v)
{
    struct gpt2_bump b = {region, 0};

    v->x = gpt2_take(&b, gpt2_rows(s) * s->model.width * sizeof(float));
    if (!s->recompute)
        carve_rest(s, &b, v);
    return b.used;
}

static size_t carve_work(const struct gpt2_shape *s, bool backward, void *region, struct work *k)
{
    const size_t rows = gpt2_rows(s), wide = rows * s->model.width;
    const size_t each = zero_dtype_bytes(s->dtype);
    struct gpt2_bump b = {region, 0};

    k->normed = gpt2_take(&b, wide * each);
    k->wide = gpt2_take(&b, 4 * wide * each);
    if (backward) {
        k->d_wide = gpt2_take(&b, 4 * wide * each);
        k->d_normed = gpt2_take(&b, wide * each);
        k->dy = gpt2_take(&b, wide * each);
        k->delta = gpt2_take(&b, rows * s->model.n_heads * sizeof(float));
        const size_t bias = gpt2_gpu_partial(rows, 4 * s->model.width);
        const size_t norm = gpt2_gpu_norm_partial(rows, s->model.width);
        k->partial = gpt2_take(&b, (bias > norm ? bias : norm) * sizeof(float));
    }
    if (s->recompute)
        carve_rest(s, &b, &k->again);
    return b.used;
}

size_t gpt2_gpu_block_saved(const struct gpt2_shape *s)
{
    struct saved v;
    return carve_saved(s, NULL, &v);
}

size_t gpt2_gpu_block_work(const struct gpt2_shape *s, bool backward)
{
    struct work k;
    return carve_work(s, backward, NULL, &k);
}

static struct block block_of(struct gpt2_pass *p, uint32_t layer, bool backward)
{
    const struct gpt2_shape *s = p->shape;
    struct block b = {.p = p,
                      .w = p->params,
                      .rows = gpt2_rows(s),
                      .width = s->model.width,
                      .dtype = s->dtype,
                      .heads = s->model.n_heads};
    void *saved = gpt2_pass_region(p, GPT2_SAVED + layer);
    void *work = gpt2_pass_region(p, backward ? GPT2_WORK_BACKWARD : GPT2_WORK_FORWARD);

    if (p->err)
        return b;
    carve_work(s, backward, work, &b.k);
    if (s->recompute)
        b.v = b.k.again;
    carve_saved(s, saved, &b.v);
    return b;
}

/* ---- Linear layers: y starts as the bias, or the bias is added elsewhere --------------------- */

static void forward_product(const struct block *b, int weight, const void *x, size_t n_in,
                            size_t n_out, float beta, void *y, uint32_t y_dtype)
{
    gpt2_product(b->p, false, true, b->rows, n_out, n_in, gpt2_matrix(x, b->dtype, n_in),
                 gpt2_matrix(b->w[weight].value, b->dtype, n_in), beta,
                 gpt2_matrix(y, y_dtype, n_out));
}

/* The gradient of the input. */
static void input_product(const struct block *b, int weight, const void *dy, size_t n_in,
                          size_t n_out, void *dx)
{
    gpt2_product(b->p, false, false, b->rows, n_in, n_out, gpt2_matrix(dy, b->dtype, n_out),
                 gpt2_matrix(b->w[weight].value, b->dtype, n_in), 0,
                 gpt2_matrix(dx, b->dtype, n_in));
}

/* The gradient of the weights. */
static void weight_product(const struct block *b, int weight, const void *x, const void *dy,
                           size_t n_in, size_t n_out)
{
    gpt2_product(b->p, true, false, n_out, n_in, b->rows, gpt2_matrix(dy, b->dtype, n_out),
                 gpt2_matrix(x, b->dtype, n_in), b->w[weight].beta,
                 gpt2_matrix(b->w[weight].gradient, b->dtype, n_in));
}

/* y = gelu of the first layer. */
static void gelu(const struct block *b, void *y)
{
    GPT2_RUN(b->p, gelu,
             &(struct gpt2_gpu_gelu){.y = y,
                                     .x = b->v.fc,
                                     .b = b->w[GPT2_FC_B].value,
                                     .rows = b->rows,
                                     .width = 4 * b->width,
                                     .dtype = b->dtype});
}

/* Queries, keys and values of normed. */
static void qkv(const struct block *b)
{
    const size_t width = b->width;

    GPT2_RUN(b->p, bias,
             &(struct gpt2_gpu_bias){.y = b->v.qkv,
                                     .b = b->w[GPT2_QKV_B].value,
                                     .rows = b->rows,
                                     .width = 3 * width,
                                     .dtype = b->dtype});
    forward_product(b, GPT2_QKV_W, b->k.normed, width, 3 * width, 1, b->v.qkv, b->dtype);
}

static struct gpt2_gpu_attention attention_of(const struct block *b)
{
    const struct gpt2_shape *s = b->p->shape;

    return (struct gpt2_gpu_attention){
        .qkv = b->v.qkv,
        .y = b->v.attention,
        .stat = b->v.softmax,
        .delta = b->k.delta,
        .dy = b->k.d_normed,
        .dqkv = b->k.d_wide,
        .batch = s->batch,
        .seq = s->seq,
        .heads = b->heads,
        .dtype = b->dtype,
        .scale = 1 / sqrtf((float)(b->width / b->heads)),
    };
}

/* ---- Passes ---------------------------------------------------------------------------------- */

/* From x on, which is kept in v.x; y (NULL: not wanted) gets the output. */
static void forward(const struct block *b, const float *x, float *y)
{
    const struct gpt2_param *w = b->w;
    const size_t width = b->width;
    const struct gpt2_gpu_attention a = attention_of(b);

    const struct gpt2_norm_place first = {.w = &w[GPT2_LN1_W],
                                          .next_b = &w[GPT2_ATT_B],
                                          .stat = b->v.stat1,
                                          .kept = x == b->v.x ? NULL : b->v.x,
                                          .next = b->v.middle,
                                          .y = b->k.normed};
    const struct gpt2_norm_place second = {.w = &w[GPT2_LN2_W],
                                           .next_b = &w[GPT2_PROJ_B],
                                           .stat = b->v.stat2,
                                           .next = y,
                                           .y = b->k.normed};

    gpt2_gpu_norm_forward(b->p, &first, x);
    qkv(b);
    GPT2_RUN(b->p, attention, &a, (uint32_t)(width / b->heads));
    forward_product(b, GPT2_ATT_W, b->v.attention, width, width, 1, b->v.middle, ZERO_F32);
    gpt2_gpu_norm_forward(b->p, &second, b->v.middle);
    forward_product(b, GPT2_FC_W, b->k.normed, width, 4 * width, 0, b->v.fc, b->dtype);
    if (!y)
        return;
    gelu(b, b->k.wide);
    forward_product(b, GPT2_PROJ_W, b->k.wide, 4 * width, width, 1, y, ZERO_F32);
}

void gpt2_gpu_block(struct gpt2_pass *p, uint32_t layer)
{
    float *x = gpt2_pass_region(p, GPT2_STREAM);
    const struct block b = block_of(p, layer, false);

    if (!p->err)
        forward(&b, x, x);
}

/* The gradient of a bias on the way to the stream, and that of the stream as products read it. */
static void stream_bias_backward(const struct block *b, int bias, const float *dx)
{
    gpt2_gpu_bias_backward(b->p, &b->w[bias], dx, ZERO_F32, b->k.dy, b->width, b->k.partial);
}

static void backward_mlp(const struct block *b, float *dx)
{
    const struct gpt2_param *w = b->w;
    const size_t width = b->width;

    stream_bias_backward(b, GPT2_PROJ_B, dx);
    input_product(b, GPT2_PROJ_W, b->k.dy, 4 * width, width, b->k.d_wide);
    gpt2_gpu_gelu_backward(b->p, &w[GPT2_FC_B], b->v.fc, b->k.wide, b->k.d_wide, 4 * width,
                           b->k.partial);
    weight_product(b, GPT2_PROJ_W, b->k.wide, b->k.dy, 4 * width, width);
    gpt2_gpu_norm_again(b->p, &w[GPT2_LN2_W], &w[GPT2_LN2_B], b->v.middle, b->v.stat2, b->k.normed);
    input_product(b, GPT2_FC_W, b->k.d_wide, width, 4 * width, b->k.d_normed);
    weight_product(b, GPT2_FC_W, b->k.normed, b->k.d_wide, width, 4 * width);
    gpt2_gpu_norm_backward(b->p, &w[GPT2_LN2_W], &w[GPT2_LN2_B], b->v.middle, b->v.stat2,
                           b->k.d_normed, b->dtype, 1, dx, b->k.partial);
}

static void backward_attention(const struct block *b, float *dx)
{
    const struct gpt2_param *w = b->w;
    const size_t width = b->width;
    const uint32_t features = (uint32_t)(width / b->heads);
    const struct gpt2_gpu_attention a = attention_of(b);

    stream_bias_backward(b, GPT2_ATT_B, dx);
    input_product(b, GPT2_ATT_W, b->k.dy, width, width, b->k.d_normed);
    weight_product(b, GPT2_ATT_W, b->v.attention, b->k.dy, width, width);
    if (b->dtype == ZERO_F32)
        GPT2_RUN(b->p, delta, &a, features);
    GPT2_RUN(b->p, attention_q, &a, features);
    GPT2_RUN(b->p, attention_kv, &a, features);
    gpt2_gpu_norm_again(b->p, &w[GPT2_LN1_W], &w[GPT2_LN1_B], b->v.x, b->v.stat1, b->k.normed);
    input_product(b, GPT2_QKV_W, b->k.d_wide, width, 3 * width, b->k.d_normed);
    weight_product(b, GPT2_QKV_W, b->k.normed, b->k.d_wide, width, 3 * width);
    gpt2_gpu_bias_backward(b->p, &w[GPT2_QKV_B], b->k.d_wide, b->dtype, NULL, 3 * width,
                           b->k.partial);
    gpt2_gpu_norm_backward(b->p, &w[GPT2_LN1_W], &w[GPT2_LN1_B], b->v.x, b->v.stat1, b->k.d_normed,
                           b->dtype, 1, dx, b->k.partial);
}

void gpt2_gpu_d_block(struct gpt2_pass *p, uint32_t layer)
{
    float *dx = gpt2_pass_region(p, GPT2_D_STREAM);
    const struct block b = block_of(p, layer, true);

    if (p->err)
        return;
    if (p->shape->recompute)
        forward(&b, b.v.x, NULL);
    backward_mlp(&b, dx);
    backward_attention(&b, dx);
}
