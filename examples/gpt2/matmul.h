/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of fp32 activations with a matrix of parameters w (n × k, row-major) in any dtype.
 *
 * Parameters in bf16 meet activations that are rounded to bf16, where the processor multiplies
 * bf16 (AMX, AVX512-BF16) and oneDNN is there; sums are fp32. Otherwise 16-bit parameters are
 * widened block by block and multiplied in fp32. All ranks of a job must do the same.
 */
#ifndef GPT2_MATMUL_H
#define GPT2_MATMUL_H

#include "layers.h"

/* Most elements of a parameter matrix that are widened, or computed in fp32, at once: 4 MiB. */
#define GPT2_TILE ((size_t)1 << 20)

/* Floats of scratch for all three products; 0 for fp32. The same on every processor. */
size_t gpt2_matmul_scratch(uint32_t dtype, size_t rows, size_t n, size_t k);

/* y = beta y + x w^T: x rows × k, y rows × n with ldy floats between rows. */
void gpt2_matmul_forward(uint32_t dtype, const void *w, const float *x, size_t rows, size_t n,
                         size_t k, float beta, float *y, size_t ldy, float *scratch);

/* dx = beta dx + dy w: dy rows × n, dx rows × k. */
void gpt2_matmul_input(uint32_t dtype, const void *w, const float *dy, size_t rows, size_t n,
                       size_t k, float beta, float *dx, float *scratch);

/* dw = beta dw + dy^T x, summed in fp32 and rounded once to dtype. */
void gpt2_matmul_weight(uint32_t dtype, void *dw, float beta, const float *dy, const float *x,
                        size_t rows, size_t n, size_t k, float *scratch);

#endif
