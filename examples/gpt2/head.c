/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output layer and cross-entropy. The logits are by far the largest activation (rows × 50,304), so
 * they are worked on in blocks of the vocabulary, with a running maximum and sum for each row. A
 * training step keeps them for its backward pass where they are small, else computes them again;
 * both give the same bits, since every block is the same matrix product.
 */
#include <math.h>

#include "matmul.h"
#include "vector.h"

/* Rows of the vocabulary that are worked on at once. */
static size_t block_rows(const struct gpt2_head *h)
{
    size_t n = GPT2_TILE / h->width / 64 * 64;
    if (n < 64)
        n = 64;
    return n < h->vocab ? n : h->vocab;
}

size_t gpt2_head_logits(const struct gpt2_head *h)
{
    return h->rows * (h->keep ? h->vocab : block_rows(h));
}

size_t gpt2_head_scratch(const struct gpt2_head *h)
{
    return gpt2_matmul_scratch(h->dtype, h->rows, block_rows(h), h->width);
}

/* Rows v … v + n - 1 of the embedding times x. */
static void block_logits(const struct gpt2_head *h, const struct gpt2_param *w, size_t v, size_t n,
                         const float *x, float *logits, float *scratch)
{
    const char *rows = (const char *)w->value + v * h->width * zero_dtype_bytes(w->dtype);
    gpt2_matmul_forward(w->dtype, rows, x, h->rows, n, h->width, 0, logits, n, scratch);
}

/* Takes n more logits of every row into stat (maximum, sum of exp); loss holds the target's. */
GPT2_CLONES
static void add_block(const float *restrict logits, size_t rows, size_t v, size_t n,
                      const int32_t *restrict targets, float *restrict loss, float *restrict stat)
{
    for (size_t r = 0; r < rows; r++, logits += n, stat += 2) {
        const float max = gpt2_max(logits, n), before = v == 0 ? max : stat[0];
        const float now = max > before ? max : before;
        gpt2_lanes sum = {0};
        size_t i = 0;
        for (; i + GPT2_LANES <= n; i += GPT2_LANES) {
            float e[GPT2_LANES];
            gpt2_lanes lanes;
            for (int j = 0; j < GPT2_LANES; j++)
                e[j] = gpt2_exp(logits[i + j] - now);
            memcpy(&lanes, e, sizeof lanes);
            sum += lanes;
        }
        float total = gpt2_lanes_sum(&sum);
        for (; i < n; i++)
            total += gpt2_exp(logits[i] - now);
        stat[1] = (v == 0 ? 0 : stat[1] * gpt2_exp(before - now)) + total;
        stat[0] = now;
        if ((size_t)targets[r] >= v && (size_t)targets[r] < v + n)
            loss[r] = logits[(size_t)targets[r] - v];
    }
}

/* Logits become the gradient of scale * loss. */
GPT2_CLONES
static void logits_backward(float *restrict logits, size_t rows, size_t v, size_t n,
                            const int32_t *restrict targets, const float *restrict stat,
                            float scale)
{
    for (size_t r = 0; r < rows; r++, logits += n, stat += 2) {
        const float factor = stat[1] * scale;
        for (size_t i = 0; i < n; i++)
            logits[i] = gpt2_exp(logits[i] - stat[0]) * factor;
        if ((size_t)targets[r] >= v && (size_t)targets[r] < v + n)
            logits[(size_t)targets[r] - v] -= scale;
    }
}

void gpt2_head_forward(const struct gpt2_head *h, const struct gpt2_param *w, const float *x,
                       const int32_t *targets, float *loss, float *stat, float *logits,
                       float *scratch)
{
    const size_t step = block_rows(h);

    for (size_t v = 0; v < h->vocab; v += step) {
        const size_t n = h->vocab - v < step ? h->vocab - v : step;
        float *block = logits + (h->keep ? v * h->rows : 0);
        block_logits(h, w, v, n, x, block, scratch);
        add_block(block, h->rows, v, n, targets, loss, stat);
    }
    for (size_t r = 0; r < h->rows; r++) {
        loss[r] = (float)(log((double)stat[2 * r + 1]) + (double)stat[2 * r] - (double)loss[r]);
        stat[2 * r + 1] = 1 / stat[2 * r + 1];
    }
}

void gpt2_head_backward(const struct gpt2_head *h, const struct gpt2_param *w, const float *x,
                        const int32_t *targets, const float *stat, float scale, float *dx,
                        float *logits, float *scratch)
{
    const size_t step = block_rows(h), bytes = h->width * zero_dtype_bytes(w->dtype);

    for (size_t v = 0; v < h->vocab; v += step) {
        const size_t n = h->vocab - v < step ? h->vocab - v : step;
        float *block = logits + (h->keep ? v * h->rows : 0);
        if (!h->keep)
            block_logits(h, w, v, n, x, block, scratch);
        logits_backward(block, h->rows, v, n, targets, stat, scale);
        gpt2_matmul_input(w->dtype, (const char *)w->value + v * bytes, block, h->rows, n,
                          h->width, v == 0 ? 0 : 1, dx, scratch);
        gpt2_matmul_weight(w->dtype, (char *)w->gradient + v * bytes, w->beta, block, x, h->rows, n,
                           h->width, scratch);
    }
}

void gpt2_head_row(const struct gpt2_head *h, const struct gpt2_param *w, const float *x,
                   float *logits, float *scratch)
{
    const struct gpt2_head one = {1, h->width, h->vocab, h->dtype, 1};
    const size_t step = block_rows(&one);

    for (size_t v = 0; v < h->vocab; v += step) {
        const size_t n = h->vocab - v < step ? h->vocab - v : step;
        block_logits(&one, w, v, n, x, logits + v, scratch);
    }
}
