/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectorised loops in plain C. GPT2_CLONES compiles a function for several instruction sets and
 * chooses at load time (static functions with names of their own only: compilers disagree on the
 * symbols of others). The bits are the same for all: sums use 16 lanes and a fixed tree, nothing is
 * contracted to fma, and exp is ours.
 */
#ifndef GPT2_VECTOR_H
#define GPT2_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <zero/types.h>

/* The run-time choice happens before a sanitizer is set up, so those builds go without. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define GPT2_SANITIZED 1
#elif defined(__has_feature)
#define GPT2_SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define GPT2_SANITIZED 0
#endif

#if defined(__x86_64__) && defined(__gnu_linux__) && !GPT2_SANITIZED && !defined(GPT2_NO_CLONES)
#define GPT2_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GPT2_CLONES
#endif

#define GPT2_LANES 16
typedef float gpt2_lanes __attribute__((vector_size(4 * GPT2_LANES)));

/* Lanes j and j + 8, j + 4, j + 2, j + 1. */
static inline float gpt2_lanes_sum(const gpt2_lanes *v)
{
    float x[GPT2_LANES];
    memcpy(x, v, sizeof x);
    for (int half = GPT2_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            x[j] += x[j + half];
    return x[0];
}

/* Sum of x[i]. */
static inline float gpt2_sum(const float *x, size_t n)
{
    gpt2_lanes sum = {0};
    size_t i = 0;
    for (; i + GPT2_LANES <= n; i += GPT2_LANES) {
        gpt2_lanes v;
        memcpy(&v, x + i, sizeof v);
        sum += v;
    }
    if (i < n) {
        gpt2_lanes v = {0};
        memcpy(&v, x + i, (n - i) * sizeof *x);
        sum += v;
    }
    return gpt2_lanes_sum(&sum);
}

/* Sum of x[i] * y[i]. */
static inline float gpt2_dot(const float *x, const float *y, size_t n)
{
    gpt2_lanes sum = {0};
    size_t i = 0;
    for (; i + GPT2_LANES <= n; i += GPT2_LANES) {
        gpt2_lanes v, w;
        memcpy(&v, x + i, sizeof v);
        memcpy(&w, y + i, sizeof w);
        sum += v * w;
    }
    if (i < n) {
        gpt2_lanes v = {0}, w = {0};
        memcpy(&v, x + i, (n - i) * sizeof *x);
        memcpy(&w, y + i, (n - i) * sizeof *y);
        sum += v * w;
    }
    return gpt2_lanes_sum(&sum);
}

/* Sum of (x[i] - mean)^2. */
static inline float gpt2_sum_squares(const float *x, float mean, size_t n)
{
    gpt2_lanes sum = {0};
    size_t i = 0;
    for (; i + GPT2_LANES <= n; i += GPT2_LANES) {
        gpt2_lanes v;
        memcpy(&v, x + i, sizeof v);
        v -= mean;
        sum += v * v;
    }
    float total = gpt2_lanes_sum(&sum);
    for (; i < n; i++)
        total += (x[i] - mean) * (x[i] - mean);
    return total;
}

/* Largest x[i], n > 0; a NaN may be lost (it comes back through the sum). */
static inline float gpt2_max(const float *x, size_t n)
{
    float m[GPT2_LANES];
    size_t i = 0;
    for (int j = 0; j < GPT2_LANES; j++)
        m[j] = x[0];
    for (; i + GPT2_LANES <= n; i += GPT2_LANES)
        for (int j = 0; j < GPT2_LANES; j++)
            m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
    for (; i < n; i++)
        m[0] = x[i] > m[0] ? x[i] : m[0];
    for (int j = 1; j < GPT2_LANES; j++)
        m[0] = m[j] > m[0] ? m[j] : m[0];
    return m[0];
}

/*
 * e^x within 2 units in the last place; below -87 and above 88 it stays at the value there. Cody
 * and Waite's argument reduction and the polynomial of Moshier's Cephes.
 */
static inline float gpt2_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    /* Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits. */
    const float shifted = x * 1.44269504088896341f + 12582912.0f;
    const uint32_t k = zero_bits_of_float(shifted) - 0x4b400000u;
    const float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * zero_float_of_bits((k + 127u) << 23);
}

/* Converts n elements of `dtype` (fp32, bf16, fp16) to fp32. */
void gpt2_to_float(uint32_t dtype, const void *src, size_t n, float *dst);

/* As gpt2_to_float, but without a copy where src is fp32 already: returns src or dst. */
const float *gpt2_as_float(uint32_t dtype, const void *src, size_t n, float *dst);

/* dst = beta * dst + src, added in fp32 and rounded once; beta is 0 or 1. */
void gpt2_store(uint32_t dtype, void *dst, const float *src, size_t n, float beta);

/* y += x. */
void gpt2_add(float *restrict y, const float *restrict x, size_t n);

/* y[r][c] += bias[c]. */
void gpt2_add_rows(float *restrict y, const float *restrict bias, size_t rows, size_t columns);

/* sum[c] = sum over r of x[r][c], in the order of r. */
void gpt2_sum_rows(const float *restrict x, size_t rows, size_t columns, float *restrict sum);

#endif
