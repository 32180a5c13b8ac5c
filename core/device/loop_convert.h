/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that read and convert: ACCUMULATE, CAST, SUM, SUMSQ. Included once by each isa_*.c, which
 * has defined the vector type, its WIDTH and the operations that isa_scalar.c shows at their
 * simplest.
 *
 * A remainder shorter than a vector is padded with zeros in a small array and goes through the same
 * operation, so that an element's bits do not depend on where it lies.
 */
#ifndef ZERO_DEVICE_LOOP_CONVERT_H
#define ZERO_DEVICE_LOOP_CONVERT_H

#include <stdbool.h>
#include <string.h>

#include "device/kernels.h"

LOOP vec load(const void *x, uint64_t i, uint32_t dtype)
{
    switch (dtype) {
    case ZERO_BF16:
        return load_bf16((const uint16_t *)x + i);
    case ZERO_F16:
        return load_fp16((const uint16_t *)x + i);
    default:
        return load_fp32((const float *)x + i);
    }
}

LOOP void store(void *x, uint64_t i, uint32_t dtype, vec value)
{
    switch (dtype) {
    case ZERO_BF16:
        store_bf16((uint16_t *)x + i, value);
        break;
    case ZERO_F16:
        store_fp16((uint16_t *)x + i, value);
        break;
    default:
        store_fp32((float *)x + i, value);
    }
}

LOOP uint32_t width_of(uint32_t dtype)
{
    return dtype == ZERO_F32 ? 4 : 2;
}

/* Copies elements [i, i + n) of x to the front of a zeroed vector's worth of memory. */
LOOP void pad(void *to, const void *x, uint64_t i, uint64_t n, uint32_t dtype)
{
    memset(to, 0, WIDTH * sizeof(float));
    memcpy(to, (const char *)x + i * width_of(dtype), n * width_of(dtype));
}

LOOP void accumulate_loop(const struct zero_accumulate_args *a, uint64_t i, uint64_t end,
                          uint32_t dtype, bool beta)
{
    float acc[WIDTH], x[WIDTH];

    for (; end - i >= WIDTH; i += WIDTH)
        store_fp32(a->acc + i,
                   vec_add(beta ? load_fp32(a->acc + i) : vec_all(0), load(a->x, i, dtype)));
    if (i == end)
        return;
    pad(acc, a->acc, i, end - i, ZERO_F32);
    pad(x, a->x, i, end - i, dtype);
    store_fp32(acc, vec_add(beta ? load_fp32(acc) : vec_all(0), load(x, 0, dtype)));
    memcpy(a->acc + i, acc, (end - i) * sizeof(float));
}

ISA static void accumulate(const struct zero_accumulate_args *a, uint64_t first, uint64_t count)
{
    switch (a->x_dtype << 1 | (a->beta != 0)) {
#define CASE(dtype)                                             \
    case dtype << 1:                                            \
        accumulate_loop(a, first, first + count, dtype, false); \
        break;                                                  \
    case dtype << 1 | 1:                                        \
        accumulate_loop(a, first, first + count, dtype, true);  \
        break;
        CASE(ZERO_F32)
        CASE(ZERO_BF16)
        CASE(ZERO_F16)
#undef CASE
    }
}

LOOP void cast_loop(const struct zero_cast_args *a, uint64_t i, uint64_t end, uint32_t to,
                    uint32_t from)
{
    float x[WIDTH], y[WIDTH];

    for (; end - i >= WIDTH; i += WIDTH)
        store(a->dst, i, to, load(a->x, i, from));
    if (i == end)
        return;
    pad(x, a->x, i, end - i, from);
    store(y, 0, to, load(x, 0, from));
    memcpy((char *)a->dst + i * width_of(to), y, (end - i) * width_of(to));
}

ISA static void cast(const struct zero_cast_args *a, uint64_t first, uint64_t count)
{
    switch (a->dst_dtype << 4 | a->x_dtype) {
#define CASE(to, from)                                \
    case (to) << 4 | (from):                          \
        cast_loop(a, first, first + count, to, from); \
        break;
        CASE(ZERO_F32, ZERO_BF16)
        CASE(ZERO_F32, ZERO_F16)
        CASE(ZERO_BF16, ZERO_F32)
        CASE(ZERO_BF16, ZERO_F16)
        CASE(ZERO_F16, ZERO_F32)
        CASE(ZERO_F16, ZERO_BF16)
#undef CASE
    }
}

/* Elements from the i-th on: a vector of them, or fewer with zeros behind. */
LOOP vec load_some(const void *x, uint64_t i, uint64_t n, uint32_t dtype)
{
    float some[WIDTH];

    if (n >= WIDTH)
        return load(x, i, dtype);
    pad(some, x, i, n, dtype);
    return load(some, 0, dtype);
}

ISA static void sum(const struct zero_sum_args *a, uint64_t first, uint64_t count)
{
    uint64_t width = width_of(a->dst_dtype);
    float some[WIDTH];

    for (uint64_t i = first, end = first + count; i < end; i += WIDTH) {
        uint64_t n = end - i < WIDTH ? end - i : WIDTH;
        vec s = a->partial ? load_some(a->partial, i, n, ZERO_F32)
                           : load_some(a->src[0], i, n, a->src_dtype);
        for (uint32_t k = !a->partial; k < a->n; k++)
            s = vec_add(s, load_some(a->src[k], i, n, a->src_dtype));
        s = vec_mul(s, vec_all(a->scale));
        if (a->accumulate)
            s = vec_add(s, load_some(a->dst, i, n, ZERO_F32));
        store(some, 0, a->dst_dtype, vec_one_nan(s));
        memcpy((char *)a->dst + i * width, some, n * width);
    }
}

/*
 * Bytes ahead of its loads that this loop asks for: the next page, where the processor's own
 * prefetching ends (no address is wrong for it). Measured with bf16 on a thread of a Zen 3: 12.7
 * GB/s instead of 9.5, of 14.1 that it reads.
 */
#define AHEAD 4096

LOOP void sumsq_loop(const struct zero_sumsq_args *a, uint64_t i, uint64_t end, uint32_t dtype)
{
    float rest[16] = {0};

    for (uint64_t stop; i < end; i = stop) {
        struct lanes sum = lanes_zero();
        uint64_t block = i / ZERO_SUMSQ_BLOCK;

        stop = end - i < ZERO_SUMSQ_BLOCK ? end : i + ZERO_SUMSQ_BLOCK;
        for (; stop - i >= 16; i += 16) {
            __builtin_prefetch((const char *)a->x + i * width_of(dtype) + AHEAD);
            lanes_add(&sum, a->x, i, dtype);
        }
        if (i < stop) {
            memcpy(rest, (const char *)a->x + i * width_of(dtype), (stop - i) * width_of(dtype));
            lanes_add(&sum, rest, 0, dtype);
        }
        a->partial[block] = lanes_total(&sum, dtype);
    }
}

ISA static void sumsq(const struct zero_sumsq_args *a, uint64_t first, uint64_t count)
{
    switch (a->dtype) {
    case ZERO_F32:
        sumsq_loop(a, first, first + count, ZERO_F32);
        break;
    case ZERO_BF16:
        sumsq_loop(a, first, first + count, ZERO_BF16);
        break;
    case ZERO_F16:
        sumsq_loop(a, first, first + count, ZERO_F16);
        break;
    }
}

#endif
