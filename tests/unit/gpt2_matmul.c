/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with bf16 parameters as the processor's bf16 instructions compute them, against the
 * widened ones: from operands that are bf16 numbers both are sums of the same exact products.
 */
#include "../tap.h"

#include <math.h>

#include "../../examples/gpt2/gemm.h"
#include "../../examples/gpt2/matmul.h"
#include "../../examples/gpt2/vector.h"

enum { MOST = 300 };

static uint64_t state = 5;

static float draw(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (float)((int64_t)(state >> 40) - (1 << 23)) / (1 << 23);
}

/* n numbers between -1 and 1 that bf16 holds, as fp32 and as bf16. */
static void fill(float *x, uint16_t *half, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h = zero_bf16_from_float(draw());
        x[i] = zero_float_from_bf16(h);
        if (half)
            half[i] = h;
    }
}

/* Largest difference; sums of `terms` products of numbers up to 1 differ by their order. */
static int near(const float *x, const float *y, size_t n, size_t terms)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    if (worst > 1e-6 * (double)terms)
        diag("differs by %g", worst);
    return worst <= 1e-6 * (double)terms;
}

static void shape(size_t rows, size_t n, size_t k)
{
    static float x[MOST * MOST], dy[MOST * MOST], wide[2 * MOST * MOST], half[2 * MOST * MOST];
    static uint16_t w[MOST * MOST], dw[2][MOST * MOST];
    static float w32[MOST * MOST], dw32[2][MOST * MOST];
    float *scratch = malloc(gpt2_matmul_scratch(ZERO_BF16, rows, n, k) * sizeof *scratch);
    const size_t ldy = n + 7;

    fill(x, NULL, rows * k);
    fill(dy, NULL, rows * n);
    fill(w32, w, n * k);
    for (int beta = 0; beta < 2; beta++) {
        fill(wide, NULL, rows * (ldy > k ? ldy : k));
        memcpy(half, wide, sizeof half);
        gpt2_matmul_forward(ZERO_F32, w32, x, rows, n, k, (float)beta, wide, ldy, NULL);
        gpt2_matmul_forward(ZERO_BF16, w, x, rows, n, k, (float)beta, half, ldy, scratch);
        ok(near(wide, half, rows * ldy, k), "forward %zu x %zu x %zu, beta %d", rows, n, k, beta);

        gpt2_matmul_input(ZERO_F32, w32, dy, rows, n, k, (float)beta, wide, NULL);
        gpt2_matmul_input(ZERO_BF16, w, dy, rows, n, k, (float)beta, half, scratch);
        ok(near(wide, half, rows * k, n), "input %zu x %zu x %zu, beta %d", rows, n, k, beta);

        fill(dw32[0], dw[0], n * k);
        gpt2_matmul_weight(ZERO_F32, dw32[0], (float)beta, dy, x, rows, n, k, NULL);
        gpt2_matmul_weight(ZERO_BF16, dw[0], (float)beta, dy, x, rows, n, k, scratch);
        gpt2_to_float(ZERO_BF16, dw[0], n * k, dw32[1]);
        for (size_t i = 0; i < n * k; i++) /* one rounding to bf16 */
            dw32[1][i] -= fabsf(dw32[0][i] - dw32[1][i]) <= 0.004f * fabsf(dw32[0][i])
                              ? dw32[1][i] - dw32[0][i]
                              : 0;
        ok(near(dw32[0], dw32[1], n * k, rows), "weight %zu x %zu x %zu, beta %d", rows, n, k,
           beta);
    }
    free(scratch);
}

int main(void)
{
    gpt2_gemm_init();
    gpt2_gemm16_init();
    if (!gpt2_gemm16_usable()) {
        skip("products of bf16", "instruction set missing on this CPU, or built without oneDNN");
        done();
    }
    shape(1, 1, 1);
    shape(5, 3, 2);
    shape(32, 64, 96);
    shape(33, 65, 31);
    shape(256, 192, 64);
    shape(100, 257, 299);
    done();
}
