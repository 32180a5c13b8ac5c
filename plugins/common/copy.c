/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming needs an aligned destination only; AVX-512 stores a line of it at once. */
#include "copy.h"

#include <string.h>

#include "reduce.h"

/*
 * Bytes ahead of the loads that the source is asked for: the next page of it, where the processor's
 * own prefetching ends. Measured on a Zen 5, two threads that copy 16 to 64 MiB each: 27 to 30 GB/s
 * instead of 24 to 27.
 */
#define AHEAD 4096

#if defined(__x86_64__)
#include <immintrin.h>

/* Whole lines. */
__attribute__((target("avx512f"))) static void lines_avx512(char *dst, const char *src,
                                                            uint64_t bytes)
{
    for (; bytes; bytes -= 64, dst += 64, src += 64) {
        _mm_prefetch(src + AHEAD, _MM_HINT_T0);
        _mm512_stream_si512((void *)dst, _mm512_loadu_si512(src));
    }
}

static void lines_sse2(char *dst, const char *src, uint64_t bytes)
{
    for (; bytes; bytes -= 64, dst += 64, src += 64) {
        _mm_prefetch(src + AHEAD, _MM_HINT_T0); /* no address is wrong for it */
        __m128i a = _mm_loadu_si128((const __m128i *)src);
        __m128i b = _mm_loadu_si128((const __m128i *)src + 1);
        __m128i c = _mm_loadu_si128((const __m128i *)src + 2);
        __m128i d = _mm_loadu_si128((const __m128i *)src + 3);
        _mm_stream_si128((__m128i *)dst, a);
        _mm_stream_si128((__m128i *)dst + 1, b);
        _mm_stream_si128((__m128i *)dst + 2, c);
        _mm_stream_si128((__m128i *)dst + 3, d);
    }
}

/*
 * The C library copies so many bytes with `rep movsb`, which fetches no line that it overwrites: a
 * gain where the destination is in no cache. Where it is, a Zen 3 moves 128 KiB in 4 to 10 us so,
 * by alignment, and in 4 by a loop; 2 MiB in 77 and 73. A Zen 5, which has AVX-512, was slower by
 * a tenth with such a loop, so processors that have it keep memcpy().
 */
__attribute__((target("avx2"))) static void copy_cached(char *dst, const char *src, uint64_t bytes)
{
    uint64_t i = 0;

    for (; bytes - i >= 128; i += 128) {
        const __m256i *from = (const __m256i *)(const void *)(src + i);
        __m256i *to = (__m256i *)(void *)(dst + i);
        __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
        __m256i c = _mm256_loadu_si256(from + 2), d = _mm256_loadu_si256(from + 3);
        _mm256_storeu_si256(to, a);
        _mm256_storeu_si256(to + 1, b);
        _mm256_storeu_si256(to + 2, c);
        _mm256_storeu_si256(to + 3, d);
    }
    if (bytes > i)
        memcpy(dst + i, src + i, bytes - i);
}

static void copy_stream(enum zero__isa isa, char *dst, const char *src, uint64_t bytes)
{
    uint64_t head = (64 - (uintptr_t)dst % 64) % 64;

    if (head > bytes)
        head = bytes;
    memcpy(dst, src, head);
    dst += head;
    src += head;
    bytes -= head;
    uint64_t lines = bytes / 64 * 64;
    if (isa == ZERO__ISA_AVX512)
        lines_avx512(dst, src, lines);
    else
        lines_sse2(dst, src, lines);
    memcpy(dst + lines, src + lines, bytes - lines);
    _mm_sfence(); /* the stores are weakly ordered: a counter published next must follow them */
}
#endif

void zero__copy(enum zero__isa isa, void *dst, const void *src, uint64_t bytes,
                enum zero__copy_way way)
{
#if defined(__x86_64__)
    if (way == ZERO__COPY_STREAM) {
        copy_stream(isa, dst, src, bytes);
        return;
    }
    if (way == ZERO__COPY_CACHED && isa == ZERO__ISA_AVX2) {
        copy_cached(dst, src, bytes);
        return;
    }
#endif
    (void)isa, (void)way;
    if (bytes)
        memcpy(dst, src, bytes);
}
