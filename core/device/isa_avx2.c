/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in vectors of 8 with AVX2; isa_scalar.c says what each operation must be. */
#include "device/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ISA __attribute__((target("avx2,fma,f16c")))
#define LOOP ISA static inline __attribute__((always_inline))
#define WIDTH 8
#define UNROLL _Pragma("GCC unroll 4")

typedef __m256 vec;

LOOP vec load_fp32(const float *x)
{
    return _mm256_loadu_ps(x);
}

LOOP vec load_bf16(const uint16_t *x)
{
    __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}

LOOP vec load_fp16(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}

LOOP void store_fp32(float *x, vec a)
{
    _mm256_storeu_ps(x, a);
}

LOOP __m128i bf16_of(vec a)
{
    __m256i u = _mm256_castps_si256(a);
    __m256i h = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x8000)), 16);
    __m256i nan = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));

    h = _mm256_blendv_epi8(h, nan, _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

LOOP __m128i fp16_of(vec a)
{
    return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT);
}

LOOP void store_bf16(uint16_t *x, vec a)
{
    _mm_storeu_si128((__m128i *)(void *)x, bf16_of(a));
}

LOOP void store_fp16(uint16_t *x, vec a)
{
    _mm_storeu_si128((__m128i *)(void *)x, fp16_of(a));
}

LOOP void stream_half(uint16_t *x, uint32_t dtype, vec a)
{
    _mm_stream_si128((__m128i *)(void *)x, dtype == ZERO_BF16 ? bf16_of(a) : fp16_of(a));
}

LOOP void stream_end(void)
{
    _mm_sfence();
}

LOOP vec vec_all(float a)
{
    return _mm256_set1_ps(a);
}

LOOP vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

LOOP vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

LOOP vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

LOOP vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

LOOP vec vec_sqrt(vec a)
{
    return _mm256_sqrt_ps(a);
}

LOOP vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

LOOP vec vec_one_nan(vec a)
{
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));

    return _mm256_blendv_ps(a, nan, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

struct lanes {
    __m256d at[4]; /* four lanes each */
};

LOOP struct lanes lanes_zero(void)
{
    __m256d zero = _mm256_setzero_pd();
    return (struct lanes){{zero, zero, zero, zero}};
}

LOOP vec load(const void *x, uint64_t i, uint32_t dtype);

LOOP __m256d add_squares(__m256d sum, __m128 x)
{
    __m256d a = _mm256_cvtps_pd(x);
    return _mm256_fmadd_pd(a, a, sum);
}

/* Of bf16 even elements, then odd ones, of either half, see isa_avx512.c. */
LOOP void lanes_add(struct lanes *sum, const void *x, uint64_t i, uint32_t dtype)
{
    __m128 part[4];

    /* Unrolled whatever the options are: with -O2 the parts lie in memory, at half of the speed. */
    if (dtype == ZERO_BF16) {
        UNROLL for (uint32_t k = 0; k < 4; k += 2) {
            __m128i pairs = _mm_loadu_si128((const __m128i *)((const uint16_t *)x + i + 4 * k));
            part[k] = _mm_castsi128_ps(_mm_slli_epi32(pairs, 16));
            part[k + 1] =
                _mm_castsi128_ps(_mm_and_si128(pairs, _mm_set1_epi32((int)0xffff0000u)));
        }
    } else {
        UNROLL for (uint32_t k = 0; k < 4; k += 2) {
            vec a = load(x, i + 4 * k, dtype);
            part[k] = _mm256_castps256_ps128(a);
            part[k + 1] = _mm256_extractf128_ps(a, 1);
        }
    }
    UNROLL for (uint32_t k = 0; k < 4; k++)
        sum->at[k] = add_squares(sum->at[k], part[k]);
}

LOOP __m128d halves_sum(__m256d a)
{
    return _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
}

LOOP double both_sum(__m128d a)
{
    return _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a)));
}

LOOP double lanes_total(const struct lanes *sum, uint32_t dtype)
{
    __m256d a = _mm256_add_pd(sum->at[0], sum->at[2]), b = _mm256_add_pd(sum->at[1], sum->at[3]);

    if (dtype == ZERO_BF16)
        return both_sum(halves_sum(a)) + both_sum(halves_sum(b));
    return both_sum(halves_sum(_mm256_add_pd(a, b)));
}

#include "device/loop_convert.h"
#include "device/loop_packed.h"
#include "device/loop_update.h"

const struct zero__loops zero__loops_avx2 = {"avx2", accumulate, cast,         sum,       sumsq,
                                             adamw,  sgd,        adamw_packed, sgd_packed};
#endif
