/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the memory gives a plain loop: the limit that benchmarks print beside their figures. Each
 * loop exists in several ways, of which callers try all and take the best. All memory is aligned to
 * 64 bytes and has 128 spare bytes behind it, since loops go on to the end of a vector.
 */
#ifndef ZERO_TOOLS_BENCH_MEASURE_LOOPS_H
#define ZERO_TOOLS_BENCH_MEASURE_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_SPARE_BYTES 128u

/* The states of an optimizer: fp32 p, m, v; a gradient; a 16-bit copy of p, or NULL. */
struct bench_states {
    void *p, *m, *v, *out;
    const void *grad;
    bool wide_grad; /* fp32, not 16 bits */
};

/*
 * How a loop is written: with a vector or four of each array a turn, with ordinary or non-temporal
 * stores ("stream"), and streaming by four while asking for the next page of what it reads. Which
 * is fastest depends on the size and on the processor.
 */
enum bench_way {
    BENCH_PLAIN,
    BENCH_FOUR,
    BENCH_STREAM,
    BENCH_STREAM_FOUR,
    N_BENCH_STORES,
    BENCH_STREAM_AHEAD = N_BENCH_STORES,
    BENCH_MEMCPY, /* the C library's, where a loop only copies */
    N_BENCH_COPIES,
    BENCH_EACH = N_BENCH_COPIES, /* of an all_reduce: each rank sums everything, as BENCH_FOUR */
    N_BENCH_WAYS
};
const char *bench_way_name(enum bench_way way);
/* Of its seconds in a record. */
const char *bench_way_field(enum bench_way way);

/*
 * Of an update: the first four, and two more, which stream the 16-bit copy alone. That is the
 * only result that was not read before, so that an ordinary store reads it first.
 */
enum bench_update_way {
    BENCH_STREAM_COPY = N_BENCH_STORES,
    BENCH_STREAM_COPY_FOUR,
    N_BENCH_UPDATES
};
const char *bench_update_name(unsigned way);
const char *bench_update_field(unsigned way);

void bench_loop_copy(void *dst, const void *src, uint64_t bytes, enum bench_way way);
/*
 * dst = the sum of n sources of `bytes` bytes, `step` apart, of fp32 or (not wide) bf16. As
 * BENCH_FOUR for BENCH_MEMCPY, which is no sum.
 */
void bench_loop_add(void *dst, const void *src, uint64_t bytes, uint64_t step, unsigned n,
                    bool wide, enum bench_way way);
/* Reads and adds up words, so that nothing can be left out; asking for the next page or not. */
uint32_t bench_loop_read(const void *x, uint64_t bytes, bool ahead);
/*
 * Loads and stores what an update of elements first … end loads and stores; p, m and v keep their
 * values, out gets other ones. Two vectors a turn or four; `way` is below N_BENCH_UPDATES. first
 * and end are multiples of 64.
 */
void bench_loop_update(const struct bench_states *s, uint64_t first, uint64_t end, unsigned way);

/* The largest cache of processor 0, as the kernel says. */
uint64_t bench_cache_bytes(void);

/*
 * Numbers in [1, 2), fp32 as well as bf16, all different ones: machines move zeros faster. Measured
 * on two cores of an EPYC (Zen 3), stores past the caches: zeros 34 GB/s, anything else 19.
 */
void bench_fill(void *base, uint64_t bytes);

/* Private memory, filled, in huge pages where the system allows; NULL: none to be had. */
void *bench_memory(uint64_t bytes);
void bench_memory_free(void *base, uint64_t bytes);

#endif
