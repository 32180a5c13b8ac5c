/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention, exact softmax. Queries are taken in blocks of GPT2_QUERIES rows, so that the
 * scores fit a cache and the upper triangle is left out; the probabilities are not kept but
 * computed again in the backward pass from the softmax's maximum and sum.
 */
#include <math.h>

#include "gemm.h"
#include "layers.h"
#include "vector.h"

enum { GPT2_QUERIES = 64 };

/* One head of one sequence: its columns of the big matrices. */
struct head {
    const float *q, *k, *v;
    uint32_t ld, size;          /* leading dimension of q, k, v; features of a head */
    uint32_t first, rows, keys; /* queries first … first + rows - 1 see keys 0 … keys - 1 */
};

static struct head head_at(const struct gpt2_attention *a, const float *qkv, size_t b, size_t h)
{
    const size_t size = a->width / a->heads;
    const float *q = qkv + b * a->seq * 3 * a->width + h * size;
    return (struct head){
        q, q + a->width, q + 2 * a->width, (uint32_t)(3 * a->width), (uint32_t)size, 0, 0, 0};
}

static void head_queries(struct head *h, size_t first, size_t seq)
{
    h->first = (uint32_t)first;
    h->rows = (uint32_t)(seq - first < GPT2_QUERIES ? seq - first : GPT2_QUERIES);
    h->keys = h->first + h->rows;
}

static void scores(const struct head *h, float *s)
{
    const float scale = 1 / sqrtf((float)h->size);
    gpt2_gemm(false, true, h->rows, h->keys, h->size, scale, h->q + (size_t)h->first * h->ld, h->ld,
              h->k, h->ld, 0, s, h->keys);
}

size_t gpt2_attention_scratch(const struct gpt2_attention *a, int backward)
{
    return (backward ? 2 : 1) * (size_t)GPT2_QUERIES * a->seq;
}

/* Row i of s becomes its softmax over 0 … first + i, zero after; stat gets maximum and 1/sum. */
GPT2_CLONES
static void softmax(float *restrict s, size_t first, size_t rows, size_t keys, float *restrict stat)
{
    for (size_t i = 0; i < rows; i++, s += keys, stat += 2) {
        const size_t n = first + i + 1;
        const float max = gpt2_max(s, n);
        for (size_t j = 0; j < n; j++)
            s[j] = gpt2_exp(s[j] - max);
        const float inverse = 1 / gpt2_sum(s, n);
        for (size_t j = 0; j < n; j++)
            s[j] *= inverse;
        memset(s + n, 0, (keys - n) * sizeof *s);
        stat[0] = max;
        stat[1] = inverse;
    }
}

/* The same probabilities from stat. */
GPT2_CLONES
static void softmax_again(float *restrict s, size_t first, size_t rows, size_t keys,
                          const float *restrict stat)
{
    for (size_t i = 0; i < rows; i++, s += keys, stat += 2) {
        const size_t n = first + i + 1;
        for (size_t j = 0; j < n; j++)
            s[j] = gpt2_exp(s[j] - stat[0]) * stat[1];
        memset(s + n, 0, (keys - n) * sizeof *s);
    }
}

/* ds = p * (ds - the row's dot product of dy and y), the gradient of the scores. */
GPT2_CLONES
static void softmax_backward(const float *restrict p, const float *restrict y,
                             const float *restrict dy, size_t ld, size_t size, size_t rows,
                             size_t keys, float *restrict ds)
{
    for (size_t i = 0; i < rows; i++, p += keys, ds += keys) {
        const float d = gpt2_dot(y + i * ld, dy + i * ld, size);
        for (size_t j = 0; j < keys; j++)
            ds[j] = p[j] * (ds[j] - d);
    }
}

void gpt2_attention_forward(const struct gpt2_attention *a, const float *qkv, float *y, float *stat,
                            float *scratch)
{
    for (size_t b = 0; b < a->batch; b++)
        for (size_t n = 0; n < a->heads; n++) {
            struct head h = head_at(a, qkv, b, n);
            float *out = y + b * a->seq * a->width + n * h.size;
            float *rows = stat + 2 * (b * a->heads + n) * a->seq;
            for (size_t t = 0; t < a->seq; t += GPT2_QUERIES) {
                head_queries(&h, t, a->seq);
                scores(&h, scratch);
                softmax(scratch, t, h.rows, h.keys, rows + 2 * t);
                gpt2_gemm(false, false, h.rows, h.size, h.keys, 1, scratch, h.keys, h.v, h.ld, 0,
                          out + t * a->width, (uint32_t)a->width);
            }
        }
}

/* One block of queries: adds to the gradients of keys and values (beta 0: sets them). */
static void head_backward(const struct head *h, const float *y, const float *dy, uint32_t width,
                          const float *stat, float beta, float *dq, float *p, float *ds)
{
    const float scale = 1 / sqrtf((float)h->size);
    float *dk = dq + width, *dv = dq + 2 * (size_t)width;
    const size_t at = h->first;

    scores(h, p);
    softmax_again(p, at, h->rows, h->keys, stat + 2 * at);
    y += at * width;
    dy += at * width;
    gpt2_gemm(true, false, h->keys, h->size, h->rows, 1, p, h->keys, dy, width, beta, dv, h->ld);
    gpt2_gemm(false, true, h->rows, h->keys, h->size, 1, dy, width, h->v, h->ld, 0, ds, h->keys);
    softmax_backward(p, y, dy, width, h->size, h->rows, h->keys, ds);
    gpt2_gemm(false, false, h->rows, h->size, h->keys, scale, ds, h->keys, h->k, h->ld, 0,
              dq + at * h->ld, h->ld);
    gpt2_gemm(true, false, h->keys, h->size, h->rows, scale, ds, h->keys, h->q + at * h->ld, h->ld,
              beta, dk, h->ld);
}

void gpt2_attention_backward(const struct gpt2_attention *a, const float *qkv, const float *y,
                             const float *stat, const float *dy, float *dqkv, float *scratch)
{
    for (size_t b = 0; b < a->batch; b++)
        for (size_t n = 0; n < a->heads; n++) {
            struct head h = head_at(a, qkv, b, n);
            const size_t column = b * a->seq * a->width + n * h.size;
            float *dq = dqkv + b * a->seq * 3 * a->width + n * h.size;
            /* The last block first: it sees all keys, so it can set what the others add to. */
            const size_t last = (a->seq - 1) / GPT2_QUERIES * GPT2_QUERIES;
            for (size_t t = last + GPT2_QUERIES; t > 0;) {
                t -= GPT2_QUERIES;
                head_queries(&h, t, a->seq);
                head_backward(&h, y + column, dy + column, (uint32_t)a->width,
                              stat + 2 * (b * a->heads + n) * a->seq, t == last ? 0 : 1, dq,
                              scratch, scratch + GPT2_QUERIES * a->seq);
            }
        }
}
