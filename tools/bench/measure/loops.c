/* SPDX-License-Identifier: Apache-2.0 */
/* The plain loops for this machine's vectors; see loops.h. */
#include "config.h"

#include "loops.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "machine/line.h"
#include "machine/pages.h"

struct loops {
    void (*copy)(char *dst, const char *src, uint64_t bytes, bool four, bool stream, bool ahead);
    void (*add)(char *dst, const char *src, uint64_t bytes, uint64_t step, unsigned n, bool wide,
                bool four, bool stream, bool ahead);
    uint32_t (*read)(const char *x, uint64_t bytes, bool ahead);
    void (*update)(const struct bench_states *s, uint64_t first, uint64_t end, uint32_t zero,
                   bool four, bool stream, bool stream_copy);
};

#if defined(__x86_64__)
#include <immintrin.h>

#define ISA __attribute__((target("avx512f")))
#define NAME(x) x##_avx512
#define VECTOR_BYTES 64
#define STREAM(to, x) _mm512_stream_si512((void *)(to), (__m512i)(x))
#include "loop_body.h"
#undef ISA
#undef NAME
#undef VECTOR_BYTES
#undef STREAM

#define ISA __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#define VECTOR_BYTES 32
#define STREAM(to, x) _mm256_stream_si256((__m256i *)(void *)(to), (__m256i)(x))
#include "loop_body.h"
#undef ISA
#undef NAME
#undef VECTOR_BYTES
#undef STREAM

#define STREAM(to, x) _mm_stream_si128((__m128i *)(void *)(to), (__m128i)(x))
#else
#define STREAM(to, x) memcpy((to), &(x), sizeof(x))
#endif

#define ISA
#define NAME(x) x##_plain
#define VECTOR_BYTES 16
#include "loop_body.h"

static const struct loops *loops(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return &loops_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &loops_avx2;
#endif
    return &loops_plain;
}

/* Streamed stores are weakly ordered: what follows, a barrier say, must not overtake them. */
static void fence(bool stream)
{
#if defined(__x86_64__)
    if (stream)
        _mm_sfence();
#else
    (void)stream;
#endif
}

static bool streams(enum bench_way way)
{
    return way == BENCH_STREAM || way == BENCH_STREAM_FOUR || way == BENCH_STREAM_AHEAD;
}

static bool is_four(enum bench_way way)
{
    return way != BENCH_PLAIN && way != BENCH_STREAM;
}

const char *bench_way_name(enum bench_way way)
{
    static const char *const names[] = {"plain",          "plain by four",       "stream",
                                        "stream by four", "stream asking ahead", "memcpy",
                                        "each sums all"};
    return names[way];
}

const char *bench_way_field(enum bench_way way)
{
    static const char *const names[] = {"plain_s",          "plain_by_four_s",       "stream_s",
                                        "stream_by_four_s", "stream_asking_ahead_s", "memcpy_s",
                                        "each_sums_all_s"};
    return names[way];
}

const char *bench_update_name(unsigned way)
{
    return way == BENCH_STREAM_COPY        ? "stream the copy"
           : way == BENCH_STREAM_COPY_FOUR ? "stream the copy by four"
                                           : bench_way_name((enum bench_way)way);
}

const char *bench_update_field(unsigned way)
{
    return way == BENCH_STREAM_COPY        ? "stream_the_copy_s"
           : way == BENCH_STREAM_COPY_FOUR ? "stream_the_copy_by_four_s"
                                           : bench_way_field((enum bench_way)way);
}

void bench_loop_copy(void *dst, const void *src, uint64_t bytes, enum bench_way way)
{
    if (way == BENCH_MEMCPY)
        memcpy(dst, src, bytes);
    else
        loops()->copy(dst, src, bytes, is_four(way), streams(way), way == BENCH_STREAM_AHEAD);
    fence(streams(way));
}

void bench_loop_add(void *dst, const void *src, uint64_t bytes, uint64_t step, unsigned n,
                    bool wide, enum bench_way way)
{
    loops()->add(dst, src, bytes, step, n, wide, is_four(way), streams(way),
                 way == BENCH_STREAM_AHEAD);
    fence(streams(way));
}

uint32_t bench_loop_read(const void *x, uint64_t bytes, bool ahead)
{
    return loops()->read(x, bytes, ahead);
}

void bench_loop_update(const struct bench_states *s, uint64_t first, uint64_t end, unsigned way)
{
    bool copy = way == BENCH_STREAM_COPY || way == BENCH_STREAM_COPY_FOUR;
    bool stream = way == BENCH_STREAM || way == BENCH_STREAM_FOUR;
    bool four = way == BENCH_FOUR || way == BENCH_STREAM_FOUR || way == BENCH_STREAM_COPY_FOUR;
    uint32_t zero = 0;

    __asm__ volatile("" : "+r"(zero)); /* hides that it is 0 */
    loops()->update(s, first, end, zero, four, stream, stream || copy);
    fence(stream || copy);
}

uint64_t bench_cache_bytes(void)
{
    char path[80];
    uint64_t most = 0, kib;

    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (zero__number_read(path, "", &kib) && kib > most) /* "32768K" */
            most = kib;
    }
    return most ? most << 10 : UINT64_C(32) << 20;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + ZERO__HUGE_BYTES - 1) / ZERO__HUGE_BYTES * ZERO__HUGE_BYTES;
}

void bench_fill(void *base, uint64_t bytes)
{
    for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t x = (uint32_t)(i / 4) * 2654435761u;
        x = 0x3f803f80u | ((x ^ x >> 15) & 0x007f007fu);
        memcpy((char *)base + i, &x, 4);
    }
}

/* At the start of a huge page, as plugins' memory is. */
void *bench_memory(uint64_t wanted)
{
    uint64_t bytes = whole_pages(wanted);
    void *base = zero__addresses_take(bytes);

    if (base && mprotect(base, bytes, PROT_READ | PROT_WRITE)) {
        munmap(base, bytes);
        base = NULL;
    }
    if (!base)
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(base, bytes, MADV_HUGEPAGE);
#endif
    bench_fill(base, bytes);
    return base;
}

void bench_memory_free(void *base, uint64_t bytes)
{
    if (base)
        munmap(base, whole_pages(bytes));
}
