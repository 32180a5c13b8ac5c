/* SPDX-License-Identifier: Apache-2.0 */
/* Linear, layer norm, GELU and embeddings; see layers.h. */
#include "layers.h"

#include <math.h>

#include "matmul.h"
#include "vector.h"

static const void *element(const struct gpt2_param *p, size_t i)
{
    return (const char *)p->value + i * zero_dtype_bytes(p->dtype);
}

static void *gradient(const struct gpt2_param *p, size_t i)
{
    return (char *)p->gradient + i * zero_dtype_bytes(p->dtype);
}

/* ---- Linear ---------------------------------------------------------------------------------- */

void gpt2_linear_forward(const struct gpt2_param *w, const struct gpt2_param *b, const float *x,
                         size_t rows, size_t n_in, size_t n_out, float beta, float *y,
                         float *scratch, float *vector)
{
    gpt2_matmul_forward(w->dtype, w->value, x, rows, n_out, n_in, beta, y, n_out, scratch);
    gpt2_add_rows(y, gpt2_as_float(b->dtype, b->value, n_out, vector), rows, n_out);
}

void gpt2_linear_input_gradient(const struct gpt2_param *w, const float *dy, size_t rows,
                                size_t n_in, size_t n_out, float *dx, float *scratch)
{
    gpt2_matmul_input(w->dtype, w->value, dy, rows, n_out, n_in, 0, dx, scratch);
}

void gpt2_linear_weight_gradient(const struct gpt2_param *w, const struct gpt2_param *b,
                                 const float *x, const float *dy, size_t rows, size_t n_in,
                                 size_t n_out, float *scratch, float *vector)
{
    gpt2_matmul_weight(w->dtype, w->gradient, w->beta, dy, x, rows, n_out, n_in, scratch);
    gpt2_sum_rows(dy, rows, n_out, vector);
    gpt2_store(b->dtype, b->gradient, vector, n_out, b->beta);
}

/* ---- Layer norm ------------------------------------------------------------------------------ */

GPT2_CLONES
static void norm_stat(const float *x, size_t rows, size_t width, float *stat)
{
    for (size_t r = 0; r < rows; r++, x += width) {
        const float mean = gpt2_sum(x, width) / (float)width;
        const float variance = gpt2_sum_squares(x, mean, width) / (float)width;
        stat[2 * r] = mean;
        stat[2 * r + 1] = 1 / sqrtf(variance + 1e-5f);
    }
}

void gpt2_norm_stat(const float *x, size_t rows, size_t width, float *stat)
{
    norm_stat(x, rows, width, stat);
}

GPT2_CLONES
static void norm_rows(const float *restrict w, const float *restrict b, const float *restrict x,
                      const float *restrict stat, size_t rows, size_t width, float *restrict y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            y[r * width + c] = (x[r * width + c] - stat[2 * r]) * stat[2 * r + 1] * w[c] + b[c];
}

void gpt2_norm_forward(const struct gpt2_param *w, const struct gpt2_param *b, const float *x,
                       const float *stat, size_t rows, size_t width, float *y, float *vector)
{
    const float *scale = gpt2_as_float(w->dtype, w->value, width, vector);
    const float *shift = gpt2_as_float(b->dtype, b->value, width, vector + width);
    norm_rows(scale, shift, x, stat, rows, width, y);
}

/* sum: gradients of scale and shift; row: scratch; 2 * width floats each. */
GPT2_CLONES
static void norm_rows_backward(const float *restrict w, const float *restrict x,
                               const float *restrict stat, const float *restrict dy, size_t rows,
                               size_t width, float beta, float *restrict dx, float *restrict sum,
                               float *restrict row)
{
    memset(sum, 0, 2 * width * sizeof *sum);
    for (size_t r = 0; r < rows; r++, x += width, dy += width, dx += width) {
        const float mean = stat[2 * r], inverse = stat[2 * r + 1];
        for (size_t c = 0; c < width; c++) {
            const float normed = (x[c] - mean) * inverse;
            sum[c] += dy[c] * normed;
            sum[width + c] += dy[c];
            row[c] = w[c] * dy[c];
            row[width + c] = normed;
        }
        const float m1 = gpt2_sum(row, width) / (float)width;
        const float m2 = gpt2_dot(row, row + width, width) / (float)width;
        for (size_t c = 0; c < width; c++) {
            const float d = (row[c] - m1 - row[width + c] * m2) * inverse;
            dx[c] = beta == 0 ? d : dx[c] + d;
        }
    }
}

void gpt2_norm_backward(const struct gpt2_param *w, const struct gpt2_param *b, const float *x,
                        const float *stat, const float *dy, size_t rows, size_t width, float beta,
                        float *dx, float *vector)
{
    const float *scale = gpt2_as_float(w->dtype, w->value, width, vector + 4 * width);
    norm_rows_backward(scale, x, stat, dy, rows, width, beta, dx, vector, vector + 2 * width);
    gpt2_store(w->dtype, w->gradient, vector, width, w->beta);
    gpt2_store(b->dtype, b->gradient, vector + width, width, b->beta);
}

/* ---- GELU ------------------------------------------------------------------------------------ */

/* x (1 + tanh u) / 2 is x / (1 + exp(-2u)): no cancellation at large negative x. */
static inline float gelu_sigmoid(float x, float *slope)
{
    const float a = 0.79788456080286536f, b = 0.044715f;
    const float u = a * (x + b * x * x * x);
    *slope = a * (1 + 3 * b * x * x);
    return 1 / (1 + gpt2_exp(-2 * u));
}

GPT2_CLONES
static void gelu(const float *restrict x, size_t n, float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        float slope;
        y[i] = x[i] * gelu_sigmoid(x[i], &slope);
    }
}

GPT2_CLONES
static void gelu_backward(const float *restrict x, size_t n, float *restrict y, float *restrict dy)
{
    for (size_t i = 0; i < n; i++) {
        float slope;
        const float s = gelu_sigmoid(x[i], &slope);
        y[i] = x[i] * s;
        dy[i] *= s + 2 * x[i] * s * (1 - s) * slope;
    }
}

void gpt2_gelu_forward(const float *x, size_t n, float *y)
{
    gelu(x, n, y);
}

void gpt2_gelu_backward(const float *x, size_t n, float *y, float *dy)
{
    gelu_backward(x, n, y, dy);
}

/* ---- Embedding ------------------------------------------------------------------------------- */

void gpt2_embed_forward(const struct gpt2_param *w, const int32_t *tokens, size_t rows,
                        size_t width, float *x)
{
    for (size_t r = 0; r < rows; r++)
        gpt2_to_float(w->dtype, element(w, (size_t)tokens[r] * width), width, x + r * width);
}

size_t gpt2_embed_scratch(size_t vocab, size_t rows)
{
    return vocab + rows;
}

/*
 * Every occurrence of a token adds to the same row: they are chained, so that a row is summed in
 * fp32 in order of position and rounded once.
 */
void gpt2_embed_backward(const struct gpt2_param *w, const int32_t *tokens, const float *dx,
                         size_t rows, size_t vocab, size_t width, int32_t *scratch, float *vector)
{
    int32_t *first = scratch, *next = scratch + vocab;

    memset(first, 0xff, vocab * sizeof *first);
    for (size_t r = rows; r-- > 0;) {
        next[r] = first[tokens[r]];
        first[tokens[r]] = (int32_t)r;
    }
    for (size_t v = 0; v < vocab; v++) {
        if (first[v] < 0 && w->beta != 0)
            continue;
        memset(vector, 0, width * sizeof *vector);
        for (int32_t r = first[v]; r >= 0; r = next[r])
            gpt2_add(vector, dx + (size_t)r * width, width);
        gpt2_store(w->dtype, gradient(w, v * width), vector, width, w->beta);
    }
}

void gpt2_position_forward(const struct gpt2_param *w, size_t batch, size_t seq, size_t width,
                           float *x, float *vector)
{
    for (size_t t = 0; t < seq; t++) {
        const float *row = gpt2_as_float(w->dtype, element(w, t * width), width, vector);
        for (size_t b = 0; b < batch; b++)
            gpt2_add(x + (b * seq + t) * width, row, width);
    }
}

void gpt2_position_backward(const struct gpt2_param *w, const float *dx, size_t batch, size_t seq,
                            size_t context, size_t width, float *vector)
{
    for (size_t t = 0; t < context; t++) {
        if (t >= seq && w->beta != 0)
            break;
        memset(vector, 0, width * sizeof *vector);
        for (size_t b = 0; b < batch && t < seq; b++)
            gpt2_add(vector, dx + (b * seq + t) * width, width);
        gpt2_store(w->dtype, gradient(w, t * width), vector, width, w->beta);
    }
}
