/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that benchmarks call limits do all that they are said to, in every way, and no more. */
#include "tools/bench/measure/loops.h"

#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "tools/bench/measure/stats.h"

#define MOST 4096u /* bytes of a source */
#define N_MOST 9u  /* sources */
#define VECTOR 64u /* loops go on to the end of the widest vector */
#define ROOM (MOST + BENCH_SPARE_BYTES)
#define ELEMENTS 512u

static _Alignas(64) char sources[N_MOST * ROOM], result[ROOM + VECTOR];

static float of_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

/* As the loops round: half a unit is added to the magnitude, with no care for ties. */
static uint16_t to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    return (uint16_t)((bits + 0x8000u) >> 16);
}

static bool sum_is_right(uint64_t bytes, uint64_t step, unsigned n, bool wide)
{
    for (uint64_t i = 0; i < bytes; i += wide ? 4 : 2) {
        float sum = 0, x, y;
        uint16_t half;
        for (unsigned k = 0; k < n; k++) {
            memcpy(&half, sources + k * step + i, 2);
            memcpy(&x, sources + k * step + i, wide ? 4 : 2);
            x = wide ? x : of_bf16(half);
            sum = k ? sum + x : x;
        }
        memcpy(&half, result + i, 2);
        memcpy(&y, result + i, wide ? 4 : 2);
        if (wide ? y != sum : half != to_bf16(sum))
            return false;
    }
    return true;
}

/* Nothing is written behind the vector that the last byte lies in. */
static bool rest_is_untouched(uint64_t bytes)
{
    uint64_t end = (bytes + VECTOR - 1) / VECTOR * VECTOR;

    for (uint64_t i = end; i < sizeof result; i++)
        if (result[i] != 0x55)
            return false;
    return true;
}

static const uint64_t sizes[] = {4, 60, 64, 196, 256, 1020, 1024, 4092, MOST};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static void sums(void)
{
    static const unsigned counts[] = {1, 2, 3, 4, 5, 8, N_MOST};
    int bad = 0;

    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned s = 0; s < N_SIZES; s++)
            for (int way = 0; way < N_BENCH_WAYS; way++)
                for (int wide = 0; wide < 2; wide++) {
                    memset(result, 0x55, sizeof result);
                    bench_loop_add(result, sources, sizes[s], ROOM, counts[c], wide,
                                   (enum bench_way)way);
                    if (sum_is_right(sizes[s], ROOM, counts[c], wide) &&
                        rest_is_untouched(sizes[s]))
                        continue;
                    diag("%u sources of %u bytes, %s, %s", counts[c], (unsigned)sizes[s],
                         wide ? "fp32" : "bf16", bench_way_name((enum bench_way)way));
                    bad++;
                }
    is_int(bad, 0, "sums of one to nine sources, by every loop");
}

static void copies(void)
{
    int bad = 0;

    for (unsigned s = 0; s < N_SIZES; s++)
        for (int way = 0; way < N_BENCH_COPIES; way++) {
            memset(result, 0x55, sizeof result);
            bench_loop_copy(result, sources, sizes[s], (enum bench_way)way);
            bad += memcmp(result, sources, sizes[s]) != 0 || !rest_is_untouched(sizes[s]);
        }
    is_int(bad, 0, "copies, by every loop");
}

static void reads(void)
{
    uint32_t sum = 0, words[MOST / 4];

    memcpy(words, sources, MOST);
    for (unsigned i = 0; i < MOST / 4; i++)
        sum += words[i];
    is_int(bench_loop_read(sources, MOST, false) == sum &&
               bench_loop_read(sources, MOST, true) == sum,
           1, "all words are read");
}

/* An update writes what it has read, and every element of the copy. */
static void update(bool wide, bool copies_too, unsigned way)
{
    static _Alignas(64) char p[4 * ELEMENTS], m[4 * ELEMENTS], v[4 * ELEMENTS], g[4 * ELEMENTS];
    static _Alignas(64) char out[2 * ELEMENTS];
    struct bench_states s = {p, m, v, copies_too ? out : NULL, g, wide};
    const uint64_t first = 64, end = ELEMENTS - 64;
    int bad = 0;

    memcpy(p, sources, sizeof p);
    memcpy(m, sources + ROOM, sizeof m);
    memcpy(v, sources + 2 * ROOM, sizeof v);
    memcpy(g, sources + 3 * ROOM, sizeof g);
    memset(out, 0, sizeof out);
    bench_loop_update(&s, first, end, way);
    bad += memcmp(p, sources, sizeof p) != 0 || memcmp(m, sources + ROOM, sizeof m) != 0 ||
           memcmp(v, sources + 2 * ROOM, sizeof v) != 0;
    for (unsigned i = 0; i < 2 * ELEMENTS; i += 4) {
        bool inside = i >= 2 * first && i < 2 * end && copies_too;
        uint32_t word;
        memcpy(&word, out + i, 4);
        bad += (word != 0) != inside;
    }
    if (bad)
        diag("%s gradients, %s: %d wrong", wide ? "fp32" : "16-bit", bench_update_name(way), bad);
    is_int(bad, 0, "an update, %s, %s", bench_update_name(way), copies_too ? "a copy" : "no copy");
}

static void statistics(void)
{
    double x[] = {7, 1, 6, 2, 5, 3, 4}, one = 3;
    struct bench_stats s = bench_stats_of(x, 7), o = bench_stats_of(&one, 1);

    is_int(s.median == 4 && s.least == 1 && s.p10 > 1.599 && s.p10 < 1.601 && s.p90 > 6.399 &&
               s.p90 < 6.401 && s.spread > 1.199 && s.spread < 1.201,
           1, "median, quantiles between values, spread");
    is_int(o.median == 3 && o.p10 == 3 && o.p90 == 3 && o.spread == 0, 1, "of one value");
}

int main(void)
{
    for (unsigned k = 0; k < N_MOST; k++) {
        bench_fill(sources + k * ROOM, ROOM);
        for (unsigned i = 0; i < ROOM; i += 4) /* another one in each */
            sources[k * ROOM + i] ^= (char)(k << 1), sources[k * ROOM + i + 2] ^= (char)(k << 1);
    }
    sums();
    copies();
    reads();
    for (unsigned way = 0; way < N_BENCH_UPDATES; way++)
        for (int wide = 0; wide < 2; wide++) {
            update(wide, true, way);
            if (way < N_BENCH_STORES)
                update(wide, false, way);
        }
    statistics();
    done();
}
