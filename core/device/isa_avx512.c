/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in vectors of 16 with AVX-512; isa_scalar.c says what each operation must be. */
#include "device/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ISA __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#define LOOP ISA static inline __attribute__((always_inline))
#define WIDTH 16

typedef __m512 vec;

LOOP vec load_fp32(const float *x)
{
    return _mm512_loadu_ps(x);
}

LOOP vec load_bf16(const uint16_t *x)
{
    __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}

LOOP vec load_fp16(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

LOOP void store_fp32(float *x, vec a)
{
    _mm512_storeu_ps(x, a);
}

LOOP __m256i bf16_of(vec a)
{
    __m512i u = _mm512_castps_si512(a);
    __m512i h = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x8000)), 16);
    __m512i nan = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));

    h = _mm512_mask_mov_epi32(h, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), nan);
    return _mm512_cvtepi32_epi16(h);
}

LOOP __m256i fp16_of(vec a)
{
    return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
}

LOOP void store_bf16(uint16_t *x, vec a)
{
    _mm256_storeu_si256((__m256i *)(void *)x, bf16_of(a));
}

LOOP void store_fp16(uint16_t *x, vec a)
{
    _mm256_storeu_si256((__m256i *)(void *)x, fp16_of(a));
}

/* x is aligned to what is stored. */
LOOP void stream_half(uint16_t *x, uint32_t dtype, vec a)
{
    _mm256_stream_si256((__m256i *)(void *)x, dtype == ZERO_BF16 ? bf16_of(a) : fp16_of(a));
}

LOOP void stream_end(void)
{
    _mm_sfence();
}

LOOP vec vec_all(float a)
{
    return _mm512_set1_ps(a);
}

LOOP vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

LOOP vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

LOOP vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

LOOP vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

LOOP vec vec_sqrt(vec a)
{
    return _mm512_sqrt_ps(a);
}

LOOP vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

LOOP vec vec_one_nan(vec a)
{
    __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));

    return _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), nan);
}

struct lanes {
    __m512d low, high;
};

LOOP struct lanes lanes_zero(void)
{
    return (struct lanes){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

LOOP vec load(const void *x, uint64_t i, uint32_t dtype);

/*
 * Of bf16 the even elements are the lower lanes and the odd ones the higher: a shift and a mask
 * make numbers of them, where spreading 16 of them takes the unit that converts to fp64, which is
 * what this loop waits for (19 instead of 27 GB/s of a thread on a Zen 5).
 */
LOOP void lanes_add(struct lanes *sum, const void *x, uint64_t i, uint32_t dtype)
{
    __m256 low, high;

    if (dtype == ZERO_BF16) {
        __m256i pairs = _mm256_loadu_si256((const __m256i *)((const uint16_t *)x + i));
        low = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
        high = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
    } else {
        vec a = load(x, i, dtype);
        low = _mm512_castps512_ps256(a);
        high = _mm512_extractf32x8_ps(a, 1);
    }
    __m512d l = _mm512_cvtps_pd(low), h = _mm512_cvtps_pd(high);
    sum->low = _mm512_fmadd_pd(l, l, sum->low);
    sum->high = _mm512_fmadd_pd(h, h, sum->high);
}

LOOP __m256d halves_sum(__m512d a)
{
    return _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
}

LOOP __m128d quarters_sum(__m256d a)
{
    return _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
}

LOOP double both_sum(__m128d a)
{
    return _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a)));
}

LOOP double lanes_total(const struct lanes *sum, uint32_t dtype)
{
    if (dtype == ZERO_BF16)
        return both_sum(quarters_sum(halves_sum(sum->low))) +
               both_sum(quarters_sum(halves_sum(sum->high)));
    return both_sum(quarters_sum(halves_sum(_mm512_add_pd(sum->low, sum->high))));
}

#include "device/loop_convert.h"
#include "device/loop_packed.h"
#include "device/loop_update.h"

const struct zero__loops zero__loops_avx512 = {"avx512", accumulate, cast,         sum,       sumsq,
                                               adamw,    sgd,        adamw_packed, sgd_packed};
#endif
