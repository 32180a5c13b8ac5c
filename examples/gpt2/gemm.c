/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product by OpenBLAS or in plain C; see gemm.h. */
#include "gemm.h"

#include <string.h>

#include "vector.h"

#if defined(HAVE_OPENBLAS) && !defined(ZERO_GPT2_PLAIN_GEMM)
#include <cblas.h>

void gpt2_gemm_init(void)
{
    openblas_set_num_threads(1);
}

const char *gpt2_gemm_name(void)
{
    return openblas_get_config();
}

void gpt2_gemm(bool ta, bool tb, uint32_t m, uint32_t n, uint32_t k, float alpha, const float *a,
               uint32_t lda, const float *b, uint32_t ldb, float beta, float *c, uint32_t ldc)
{
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

#else

/* A tile of op(B) is copied to the stack so that the inner loop runs along rows. */
enum { TILE_K = 64, TILE_N = 128 };

void gpt2_gemm_init(void)
{
}

const char *gpt2_gemm_name(void)
{
    return "plain C";
}

static void copy_tile(bool tb, const float *b, uint32_t ldb, uint32_t k0, uint32_t nk, uint32_t n0,
                      uint32_t nn, float *restrict tile)
{
    for (uint32_t p = 0; p < nk; p++)
        for (uint32_t j = 0; j < TILE_N; j++)
            tile[p * TILE_N + j] = j >= nn ? 0
                                   : tb    ? b[(size_t)(n0 + j) * ldb + k0 + p]
                                           : b[(size_t)(k0 + p) * ldb + n0 + j];
}

/* Vectors of four, which every compiler keeps in registers; eight of them at a time. */
typedef float four __attribute__((vector_size(16)));

static void add_row(const float *restrict a, size_t step, uint32_t nk, const float *restrict tile,
                    float alpha, uint32_t nn, float *restrict c)
{
    enum { FOURS = 8, PART = 4 * FOURS };

    for (uint32_t n0 = 0; n0 < nn; n0 += PART) {
        four sum[FOURS] = {0};
        float part[PART];
        for (uint32_t p = 0; p < nk; p++) {
            const float x = alpha * a[p * step];
            four b[FOURS];
            memcpy(b, tile + p * TILE_N + n0, sizeof b);
            for (uint32_t j = 0; j < FOURS; j++)
                sum[j] += x * b[j];
        }
        memcpy(part, sum, sizeof part);
        for (uint32_t j = 0; j < PART && n0 + j < nn; j++)
            c[n0 + j] += part[j];
    }
}

void gpt2_gemm(bool ta, bool tb, uint32_t m, uint32_t n, uint32_t k, float alpha, const float *a,
               uint32_t lda, const float *b, uint32_t ldb, float beta, float *c, uint32_t ldc)
{
    float tile[TILE_K * TILE_N];

    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j < n; j++)
            c[(size_t)i * ldc + j] = beta == 0 ? 0 : beta * c[(size_t)i * ldc + j];
    for (uint32_t n0 = 0; n0 < n; n0 += TILE_N) {
        const uint32_t nn = n - n0 < TILE_N ? n - n0 : TILE_N;
        for (uint32_t k0 = 0; k0 < k; k0 += TILE_K) {
            const uint32_t nk = k - k0 < TILE_K ? k - k0 : TILE_K;
            copy_tile(tb, b, ldb, k0, nk, n0, nn, tile);
            for (uint32_t i = 0; i < m; i++)
                add_row(ta ? a + (size_t)k0 * lda + i : a + (size_t)i * lda + k0, ta ? lda : 1, nk,
                        tile, alpha, nn, c + (size_t)i * ldc + n0);
        }
    }
}

#endif
