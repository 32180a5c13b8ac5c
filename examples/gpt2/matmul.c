/* SPDX-License-Identifier: Apache-2.0 */
/* Products with parameters in fp32 or widened to it, and in bf16; see matmul.h. */
#include "matmul.h"

#include "gemm.h"
#include "vector.h"

/* Rows of a matrix that make a tile, at least one. */
static size_t tile_rows(uint32_t dtype, size_t rows, size_t columns)
{
    if (dtype == ZERO_F32 || rows * columns <= GPT2_TILE)
        return rows;
    size_t n = GPT2_TILE / columns;
    return n > 64 ? n / 64 * 64 : n > 0 ? n : 1;
}

static size_t tile_floats(uint32_t dtype, size_t n, size_t k)
{
    return tile_rows(dtype, n, k) * k;
}

/* Floats that n bf16 numbers take, rounded up to a cache line. */
static size_t half_floats(size_t n)
{
    return (n + 31) / 32 * 16;
}

size_t gpt2_matmul_scratch(uint32_t dtype, size_t rows, size_t n, size_t k)
{
    if (dtype == ZERO_F32)
        return 0;
    if (dtype != ZERO_BF16)
        return tile_floats(dtype, n, k);
    return half_floats(rows * n) + half_floats(rows * k) + tile_floats(dtype, n, k);
}

static bool is_half(uint32_t dtype)
{
    return dtype == ZERO_BF16 && gpt2_gemm16_usable();
}

static const char *row(uint32_t dtype, const void *w, size_t i, size_t k)
{
    return (const char *)w + i * k * zero_dtype_bytes(dtype);
}

/* Rounds to bf16; returns where the scratch goes on. */
static float *halve(const float *x, size_t n, float *scratch)
{
    gpt2_store(ZERO_BF16, scratch, x, n, 0);
    return scratch + half_floats(n);
}

void gpt2_matmul_forward(uint32_t dtype, const void *w, const float *x, size_t rows, size_t n,
                         size_t k, float beta, float *y, size_t ldy, float *scratch)
{
    const size_t step = tile_rows(dtype, n, k);

    if (is_half(dtype)) {
        halve(x, rows * k, scratch);
        gpt2_gemm16(false, true, (uint32_t)rows, (uint32_t)n, (uint32_t)k, (const void *)scratch,
                    (uint32_t)k, w, (uint32_t)k, beta, y, (uint32_t)ldy);
        return;
    }
    for (size_t o = 0; o < n; o += step) {
        const size_t part = n - o < step ? n - o : step;
        const float *m = gpt2_as_float(dtype, row(dtype, w, o, k), part * k, scratch);
        gpt2_gemm(false, true, (uint32_t)rows, (uint32_t)part, (uint32_t)k, 1, x, (uint32_t)k, m,
                  (uint32_t)k, beta, y + o, (uint32_t)ldy);
    }
}

void gpt2_matmul_input(uint32_t dtype, const void *w, const float *dy, size_t rows, size_t n,
                       size_t k, float beta, float *dx, float *scratch)
{
    const size_t step = tile_rows(dtype, n, k);

    if (is_half(dtype)) {
        halve(dy, rows * n, scratch);
        gpt2_gemm16(false, false, (uint32_t)rows, (uint32_t)k, (uint32_t)n, (const void *)scratch,
                    (uint32_t)n, w, (uint32_t)k, beta, dx, (uint32_t)k);
        return;
    }
    for (size_t o = 0; o < n; o += step) {
        const size_t part = n - o < step ? n - o : step;
        const float *m = gpt2_as_float(dtype, row(dtype, w, o, k), part * k, scratch);
        gpt2_gemm(false, false, (uint32_t)rows, (uint32_t)k, (uint32_t)part, 1, dy + o,
                  (uint32_t)n, m, (uint32_t)k, o == 0 ? beta : 1, dx, (uint32_t)k);
    }
}

void gpt2_matmul_weight(uint32_t dtype, void *dw, float beta, const float *dy, const float *x,
                        size_t rows, size_t n, size_t k, float *scratch)
{
    const size_t step = tile_rows(dtype, n, k);
    const bool half = is_half(dtype), direct = dtype == ZERO_F32;
    const uint16_t *dy16 = (const void *)scratch, *x16 = NULL;

    if (half) {
        scratch = halve(dy, rows * n, scratch);
        x16 = (const void *)scratch;
        scratch = halve(x, rows * k, scratch);
    }
    for (size_t o = 0; o < n; o += step) {
        const uint32_t part = (uint32_t)(n - o < step ? n - o : step);
        void *to = (char *)dw + o * k * zero_dtype_bytes(dtype);
        float *tile = direct ? to : scratch;
        if (half)
            gpt2_gemm16(true, false, part, (uint32_t)k, (uint32_t)rows, dy16 + o, (uint32_t)n, x16,
                        (uint32_t)k, 0, tile, (uint32_t)k);
        else
            gpt2_gemm(true, false, part, (uint32_t)k, (uint32_t)rows, 1, dy + o, (uint32_t)n, x,
                      (uint32_t)k, direct ? beta : 0, tile, (uint32_t)k);
        if (!direct)
            gpt2_store(dtype, to, tile, part * k, beta);
    }
}
