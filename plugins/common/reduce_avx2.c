/* SPDX-License-Identifier: Apache-2.0 */
/* Floating reductions with AVX2 and F16C: 8 elements at a time, see reduce_loop.h. */
#include "reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#define W 8u
#define TARGET __attribute__((target("avx2,f16c")))
#define FN static inline __attribute__((always_inline)) TARGET

typedef __m256 vec;
typedef __m128i half;
typedef __m256i word; /* pairs of bf16 */

FN vec vec_set1(float x)
{
    return _mm256_set1_ps(x);
}

FN vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

FN vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

/* The larger one; a NaN stays or comes in. */
FN vec vec_max(vec a, vec b)
{
    vec take = _mm256_and_ps(_mm256_cmp_ps(b, a, _CMP_NLE_UQ), _mm256_cmp_ps(a, a, _CMP_ORD_Q));
    return _mm256_blendv_ps(a, b, take);
}

FN vec vec_canonical(vec a)
{
    vec nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    return _mm256_blendv_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), nan);
}

FN vec load_f32(const float *p)
{
    return _mm256_loadu_ps(p);
}

FN vec load_bf16(const uint16_t *p)
{
    __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(h, 16));
}

FN vec load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* x is canonical: its NaN, 0x7fc00000, rounds to 0x7fc0 without a special case. */
FN half to_bf16(vec x)
{
    __m256i u = _mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x8000));
    u = _mm256_srli_epi32(u, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
}

FN half to_f16(vec x)
{
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FN void store_f32(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

FN void stream_f32(float *p, vec x)
{
    _mm256_stream_ps(p, x);
}

FN void store_h(uint16_t *p, half h)
{
    _mm_storeu_si128((__m128i *)p, h);
}

FN void stream_h(uint16_t *p, half h)
{
    _mm_stream_si128((__m128i *)p, h);
}

FN word load_w(const uint16_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

FN vec even_of(word w)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

FN vec odd_of(word w)
{
    return _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000u)));
}

FN bool any_nan(vec a, vec b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0;
}

/* Both canonical. */
FN word to_pairs(vec even, vec odd)
{
    const __m256i half_ulp = _mm256_set1_epi32(0x8000), upper = _mm256_set1_epi32((int)0xffff0000u);
    __m256i e = _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(even), half_ulp), 16);
    __m256i o = _mm256_add_epi32(_mm256_castps_si256(odd), half_ulp);
    return _mm256_or_si256(e, _mm256_and_si256(o, upper));
}

FN void store_w(uint16_t *p, word w)
{
    _mm256_storeu_si256((__m256i *)(void *)p, w);
}

FN void stream_w(uint16_t *p, word w)
{
    _mm256_stream_si256((__m256i *)(void *)p, w);
}

#include "reduce_loop.h"

TARGET void zero__reduce_float_avx2(const struct zero__reduce *r)
{
    reduce_float(r);
}
#endif
