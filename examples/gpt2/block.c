/* SPDX-License-Identifier: Apache-2.0 */
/* A transformer block; see block.h. */
#include "block.h"

#include <string.h>

#include "matmul.h"

/* What the backward pass needs; all but x can be computed again from x. */
struct saved {
    float *x;         /* input, rows × width */
    float *stat1;     /* of the first layer norm, rows × 2 */
    float *qkv;       /* rows × 3 width */
    float *softmax;   /* rows × heads × 2 */
    float *attention; /* rows × width */
    float *middle;    /* residual stream after attention, rows × width */
    float *stat2;     /* rows × 2 */
    float *fc;        /* before GELU, rows × 4 width */
};

struct work {
    float *normed;    /* rows × width */
    float *wide;      /* rows × 4 width */
    float *attention; /* scratch of attention */
    float *scratch, *vector;
    /* Backward only. */
    float *d_wide, *d_normed;
    struct saved again; /* where the forward pass lies that was computed again */
};

static struct gpt2_attention attention_of(const struct gpt2_shape *s)
{
    return (struct gpt2_attention){s->batch, s->seq, s->model.n_heads, s->model.width};
}

static float *take_floats(struct gpt2_bump *b, size_t n)
{
    return gpt2_take(b, n * sizeof(float));
}

static void carve_rest(const struct gpt2_shape *s, struct gpt2_bump *b, struct saved *v)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;

    v->stat1 = take_floats(b, 2 * rows);
    v->qkv = take_floats(b, 3 * rows * width);
    v->softmax = take_floats(b, 2 * rows * s->model.n_heads);
    v->attention = take_floats(b, rows * width);
    v->middle = take_floats(b, rows * width);
    v->stat2 = take_floats(b, 2 * rows);
    v->fc = take_floats(b, 4 * rows * width);
}

/* With recomputation the region holds x alone. */
static size_t carve_saved(const struct gpt2_shape *s, void *region, struct saved *v)
{
    struct gpt2_bump b = {region, 0};

    v->x = take_floats(&b, gpt2_rows(s) * s->model.width);
    if (!s->recompute)
        carve_rest(s, &b, v);
    return b.used;
}

static size_t carve_work(const struct gpt2_shape *s, int backward, void *region, struct work *w)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;
    const struct gpt2_attention a = attention_of(s);
    struct gpt2_bump b = {region, 0};

    w->normed = take_floats(&b, rows * width);
    w->wide = take_floats(&b, 4 * rows * width);
    w->attention = take_floats(&b, gpt2_attention_scratch(&a, backward));
    /* The widest matrices are 4 width × width and width × 4 width. */
    size_t scratch = gpt2_matmul_scratch(s->dtype, rows, 4 * width, width);
    const size_t other = gpt2_matmul_scratch(s->dtype, rows, width, 4 * width);
    scratch = other > scratch ? other : scratch;
    w->scratch = take_floats(&b, scratch);
    w->vector = take_floats(&b, 5 * width);
    if (backward) {
        w->d_wide = take_floats(&b, 4 * rows * width);
        w->d_normed = take_floats(&b, rows * width);
    }
    if (s->recompute)
        carve_rest(s, &b, &w->again);
    return b.used;
}

size_t gpt2_block_saved(const struct gpt2_shape *s)
{
    struct saved v;
    return carve_saved(s, NULL, &v);
}

size_t gpt2_block_work(const struct gpt2_shape *s, int backward)
{
    struct work w;
    return carve_work(s, backward, NULL, &w);
}

/* From v->x on; y (NULL: not wanted) gets the output. */
static void forward(const struct gpt2_shape *s, const struct gpt2_param *p, const struct saved *v,
                    const struct work *w, float *y)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;
    const struct gpt2_attention a = attention_of(s);

    gpt2_norm_stat(v->x, rows, width, v->stat1);
    gpt2_norm_forward(&p[GPT2_LN1_W], &p[GPT2_LN1_B], v->x, v->stat1, rows, width, w->normed,
                      w->vector);
    gpt2_linear_forward(&p[GPT2_QKV_W], &p[GPT2_QKV_B], w->normed, rows, width, 3 * width, 0,
                        v->qkv, w->scratch, w->vector);
    gpt2_attention_forward(&a, v->qkv, v->attention, v->softmax, w->attention);
    memcpy(v->middle, v->x, rows * width * sizeof *v->x);
    gpt2_linear_forward(&p[GPT2_ATT_W], &p[GPT2_ATT_B], v->attention, rows, width, width, 1,
                        v->middle, w->scratch, w->vector);

    gpt2_norm_stat(v->middle, rows, width, v->stat2);
    gpt2_norm_forward(&p[GPT2_LN2_W], &p[GPT2_LN2_B], v->middle, v->stat2, rows, width, w->normed,
                      w->vector);
    gpt2_linear_forward(&p[GPT2_FC_W], &p[GPT2_FC_B], w->normed, rows, width, 4 * width, 0, v->fc,
                        w->scratch, w->vector);
    if (!y)
        return;
    gpt2_gelu_forward(v->fc, 4 * rows * width, w->wide);
    memcpy(y, v->middle, rows * width * sizeof *y);
    gpt2_linear_forward(&p[GPT2_PROJ_W], &p[GPT2_PROJ_B], w->wide, rows, 4 * width, width, 1, y,
                        w->scratch, w->vector);
}

void gpt2_block_forward(const struct gpt2_shape *s, const struct gpt2_param *params, void *saved,
                        void *work, float *x)
{
    struct saved v;
    struct work w;

    carve_work(s, 0, work, &w);
    if (s->recompute)
        v = w.again;
    carve_saved(s, saved, &v);
    memcpy(v.x, x, gpt2_rows(s) * s->model.width * sizeof *x);
    forward(s, params, &v, &w, x);
}

static void backward_mlp(const struct gpt2_shape *s, const struct gpt2_param *p,
                         const struct saved *v, const struct work *w, float *dx)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;

    /* The gradient of the projection's weights needs GELU's output, which the next line computes;
     * so the projection's input gradient and GELU come first, the weights' after. */
    gpt2_linear_input_gradient(&p[GPT2_PROJ_W], dx, rows, 4 * width, width, w->d_wide, w->scratch);
    gpt2_gelu_backward(v->fc, 4 * rows * width, w->wide, w->d_wide);
    gpt2_linear_weight_gradient(&p[GPT2_PROJ_W], &p[GPT2_PROJ_B], w->wide, dx, rows, 4 * width,
                                width, w->scratch, w->vector);
    gpt2_norm_forward(&p[GPT2_LN2_W], &p[GPT2_LN2_B], v->middle, v->stat2, rows, width, w->normed,
                      w->vector);
    gpt2_linear_input_gradient(&p[GPT2_FC_W], w->d_wide, rows, width, 4 * width, w->d_normed,
                               w->scratch);
    gpt2_linear_weight_gradient(&p[GPT2_FC_W], &p[GPT2_FC_B], w->normed, w->d_wide, rows, width,
                                4 * width, w->scratch, w->vector);
    gpt2_norm_backward(&p[GPT2_LN2_W], &p[GPT2_LN2_B], v->middle, v->stat2, w->d_normed, rows,
                       width, 1, dx, w->vector);
}

static void backward_attention(const struct gpt2_shape *s, const struct gpt2_param *p,
                               const struct saved *v, const struct work *w, float *dx)
{
    const size_t rows = gpt2_rows(s), width = s->model.width;
    const struct gpt2_attention a = attention_of(s);
    float *d_qkv = w->d_wide;

    gpt2_linear_input_gradient(&p[GPT2_ATT_W], dx, rows, width, width, w->d_normed, w->scratch);
    gpt2_linear_weight_gradient(&p[GPT2_ATT_W], &p[GPT2_ATT_B], v->attention, dx, rows, width,
                                width, w->scratch, w->vector);
    gpt2_attention_backward(&a, v->qkv, v->attention, v->softmax, w->d_normed, d_qkv, w->attention);
    gpt2_norm_forward(&p[GPT2_LN1_W], &p[GPT2_LN1_B], v->x, v->stat1, rows, width, w->normed,
                      w->vector);
    gpt2_linear_input_gradient(&p[GPT2_QKV_W], d_qkv, rows, width, 3 * width, w->d_normed,
                               w->scratch);
    gpt2_linear_weight_gradient(&p[GPT2_QKV_W], &p[GPT2_QKV_B], w->normed, d_qkv, rows, width,
                                3 * width, w->scratch, w->vector);
    gpt2_norm_backward(&p[GPT2_LN1_W], &p[GPT2_LN1_B], v->x, v->stat1, w->d_normed, rows, width, 1,
                       dx, w->vector);
}

void gpt2_block_backward(const struct gpt2_shape *s, const struct gpt2_param *params, void *saved,
                         void *work, float *dx)
{
    struct saved v;
    struct work w;

    carve_work(s, 1, work, &w);
    if (s->recompute)
        v = w.again;
    carve_saved(s, saved, &v);
    if (s->recompute)
        forward(s, params, &v, &w, NULL);
    backward_mlp(s, params, &v, &w, dx);
    backward_attention(s, params, &v, &w, dx);
}
