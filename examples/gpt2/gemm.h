/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix product C = alpha op(A) op(B) + beta C, row-major fp32: OpenBLAS with one thread, or plain
 * C when built without it (and under the thread sanitizer, which cannot see into OpenBLAS).
 * Results depend on the shapes only, never on threads or on which rank computes.
 */
#ifndef GPT2_GEMM_H
#define GPT2_GEMM_H

#include <stdbool.h>
#include <stdint.h>

/* One thread for each product, for the whole process: ranks are the parallelism here. */
void gpt2_gemm_init(void);

/* "OpenBLAS Zen …" or "plain C". */
const char *gpt2_gemm_name(void);

/* op(A) is m × k, op(B) k × n, C m × n; ta, tb: the stored matrix is transposed. */
void gpt2_gemm(bool ta, bool tb, uint32_t m, uint32_t n, uint32_t k, float alpha, const float *a,
               uint32_t lda, const float *b, uint32_t ldb, float beta, float *c, uint32_t ldc);

/*
 * C = op(A) op(B) + beta C with bf16 operands and fp32 sums and results, by oneDNN. Usable after
 * gpt2_gemm16_init() where the processor multiplies bf16.
 */
void gpt2_gemm16_init(void);
bool gpt2_gemm16_usable(void);
void gpt2_gemm16(bool ta, bool tb, uint32_t m, uint32_t n, uint32_t k, const uint16_t *a,
                 uint32_t lda, const uint16_t *b, uint32_t ldb, float beta, float *c, uint32_t ldc);

#endif
