/* SPDX-License-Identifier: Apache-2.0 */
/* Floating reductions with AVX-512: 16 elements at a time, see reduce_loop.h. */
#include "reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#define W 16u
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define FN static inline __attribute__((always_inline)) TARGET

typedef __m512 vec;
typedef __m256i half;
typedef __m512i word; /* pairs of bf16 */

FN vec vec_set1(float x)
{
    return _mm512_set1_ps(x);
}

FN vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

FN vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

/* The larger one; a NaN stays or comes in. */
FN vec vec_max(vec a, vec b)
{
    __mmask16 take = _mm512_cmp_ps_mask(b, a, _CMP_NLE_UQ);
    take &= _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
    return _mm512_mask_mov_ps(a, take, b);
}

FN vec vec_canonical(vec a)
{
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(a, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
}

FN vec load_f32(const float *p)
{
    return _mm512_loadu_ps(p);
}

FN vec load_bf16(const uint16_t *p)
{
    __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(h, 16));
}

FN vec load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* x is canonical: its NaN, 0x7fc00000, rounds to 0x7fc0 without a special case. */
FN half to_bf16(vec x)
{
    __m512i u = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16));
}

FN half to_f16(vec x)
{
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FN void store_f32(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

FN void stream_f32(float *p, vec x)
{
    _mm512_stream_ps(p, x);
}

FN void store_h(uint16_t *p, half h)
{
    _mm256_storeu_si256((__m256i *)p, h);
}

FN void stream_h(uint16_t *p, half h)
{
    _mm256_stream_si256((__m256i *)p, h);
}

FN word load_w(const uint16_t *p)
{
    return _mm512_loadu_si512(p);
}

FN vec even_of(word w)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

FN vec odd_of(word w)
{
    return _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000u)));
}

FN bool any_nan(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0;
}

/* Both canonical. */
FN word to_pairs(vec even, vec odd)
{
    const __m512i half_ulp = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000u);
    __m512i e = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(even), half_ulp), 16);
    __m512i o = _mm512_add_epi32(_mm512_castps_si512(odd), half_ulp);
    return _mm512_or_si512(e, _mm512_and_si512(o, upper));
}

FN void store_w(uint16_t *p, word w)
{
    _mm512_storeu_si512(p, w);
}

FN void stream_w(uint16_t *p, word w)
{
    _mm512_stream_si512((__m512i *)(void *)p, w);
}

#include "reduce_loop.h"

TARGET void zero__reduce_float_avx512(const struct zero__reduce *r)
{
    reduce_float(r);
}
#endif
