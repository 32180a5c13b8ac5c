/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between element types and sums of rows; see vector.h. */
#include "vector.h"

GPT2_CLONES
static void float_from_bf16(const uint16_t *restrict src, size_t n, float *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = zero_float_from_bf16(src[i]);
}

GPT2_CLONES
static void float_from_fp16(const uint16_t *restrict src, size_t n, float *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = zero_float_from_fp16(src[i]);
}

GPT2_CLONES
static void bf16_from_float(const float *restrict src, size_t n, uint16_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = zero_bf16_from_float(src[i]);
}

GPT2_CLONES
static void fp16_from_float(const float *restrict src, size_t n, uint16_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = zero_fp16_from_float(src[i]);
}

GPT2_CLONES
static void bf16_add_float(const float *restrict src, size_t n, uint16_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = zero_bf16_from_float(zero_float_from_bf16(dst[i]) + src[i]);
}

GPT2_CLONES
static void fp16_add_float(const float *restrict src, size_t n, uint16_t *restrict dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = zero_fp16_from_float(zero_float_from_fp16(dst[i]) + src[i]);
}

GPT2_CLONES
static void add(float *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

GPT2_CLONES
static void add_rows(float *restrict y, const float *restrict bias, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            y[r * columns + c] += bias[c];
}

GPT2_CLONES
static void sum_rows(const float *restrict x, size_t rows, size_t columns, float *restrict sum)
{
    memset(sum, 0, columns * sizeof *sum);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            sum[c] += x[r * columns + c];
}

void gpt2_to_float(uint32_t dtype, const void *src, size_t n, float *dst)
{
    if (dtype == ZERO_BF16)
        float_from_bf16(src, n, dst);
    else if (dtype == ZERO_F16)
        float_from_fp16(src, n, dst);
    else
        memcpy(dst, src, n * sizeof *dst);
}

const float *gpt2_as_float(uint32_t dtype, const void *src, size_t n, float *dst)
{
    if (dtype == ZERO_F32)
        return src;
    gpt2_to_float(dtype, src, n, dst);
    return dst;
}

void gpt2_store(uint32_t dtype, void *dst, const float *src, size_t n, float beta)
{
    if (dtype == ZERO_BF16)
        (beta == 0 ? bf16_from_float : bf16_add_float)(src, n, dst);
    else if (dtype == ZERO_F16)
        (beta == 0 ? fp16_from_float : fp16_add_float)(src, n, dst);
    else if (beta == 0)
        memcpy(dst, src, n * sizeof *src);
    else
        add(dst, src, n);
}

void gpt2_add(float *restrict y, const float *restrict x, size_t n)
{
    add(y, x, n);
}

void gpt2_add_rows(float *restrict y, const float *restrict bias, size_t rows, size_t columns)
{
    add_rows(y, bias, rows, columns);
}

void gpt2_sum_rows(const float *restrict x, size_t rows, size_t columns, float *restrict sum)
{
    sum_rows(x, rows, columns, sum);
}
