/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test values of every element type, with infinities, NaNs, subnormals and both zeros among them,
 * and what a reduction must make of them: comm.h and types.h in the plainest C.
 */
#ifndef ZERO_TOOLS_COMMON_VALUES_H
#define ZERO_TOOLS_COMMON_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <zero/comm.h>

/* Bits that depend on everything: the finaliser of splitmix64. */
static inline uint64_t mix(uint64_t seed, uint64_t rank, uint64_t i)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + rank * 0xc2b2ae3d27d4eb4fu + i;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Any number in [-1, 1), of 24 bits. */
static inline float value_plain(uint64_t seed, uint64_t rank, uint64_t i)
{
    return (float)((int32_t)(mix(seed, rank, i) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* An element as its bits. */
static inline uint64_t value_bits(uint32_t dtype, uint64_t x)
{
    static const uint32_t rare[] = {0x7f800000u, 0xff800000u, 0x80000000u, 0,
                                    0x7fc00001u, 0xff812345u, 0x00000123u, 0x477fefffu};
    uint32_t f = ((uint32_t)x & 0x807fffffu) | (112 + (uint32_t)(x >> 32) % 30) << 23;

    if ((x >> 56) < 8)
        f = rare[(x >> 48) % 8];
    switch (dtype) {
    case ZERO_F32:
        return f;
    case ZERO_BF16:
        return f >> 16;
    case ZERO_F16:
        return (x >> 56) < 8 ? (x >> 40) & 0xffff : zero_fp16_from_float(zero_float_of_bits(f));
    case ZERO_F64:
        return (x & 0x800fffffffffffffu) | (1010 + (x >> 52) % 16) << 52;
    default:
        return x;
    }
}

static inline void value_store(uint32_t dtype, void *base, uint64_t i, uint64_t bits)
{
    uint32_t n = zero_dtype_bytes(dtype);
    memcpy((char *)base + i * n, &bits, n); /* little-endian, as all machines this runs on */
}

static inline uint64_t value_load(uint32_t dtype, const void *base, uint64_t i)
{
    uint32_t n = zero_dtype_bytes(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)base + i * n, n);
    return bits;
}

static inline float value_float(uint32_t dtype, uint64_t bits)
{
    if (dtype == ZERO_BF16)
        return zero_float_from_bf16((uint16_t)bits);
    if (dtype == ZERO_F16)
        return zero_float_from_fp16((uint16_t)bits);
    return zero_float_of_bits((uint32_t)bits);
}

static inline uint64_t value_round(uint32_t dtype, float x)
{
    if (x != x)
        x = zero_float_of_bits(0x7fc00000u);
    if (dtype == ZERO_BF16)
        return zero_bf16_from_float(x);
    if (dtype == ZERO_F16)
        return zero_fp16_from_float(x);
    return zero_bits_of_float(x);
}

static inline uint64_t max_int(uint32_t dtype, uint64_t a, uint64_t b)
{
    if (dtype == ZERO_I32)
        return (int32_t)a > (int32_t)b ? a : b;
    if (dtype == ZERO_I64)
        return (int64_t)a > (int64_t)b ? a : b;
    return (uint8_t)a > (uint8_t)b ? a : b;
}

static inline double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* One element of a reduction of n values; `old` is what dst held, for accumulate. */
static inline uint64_t reduce_reference(const struct zero_coll *c, const uint64_t *x, int n,
                                        uint64_t old)
{
    bool sum = c->redop == ZERO_SUM;
    float f = value_float(c->src_dtype, x[0]);

    if (c->src_dtype == ZERO_F64) {
        double d = double_of(x[0]);
        for (int i = 1; i < n; i++)
            d = sum ? d + double_of(x[i]) : double_of(x[i]) > d ? double_of(x[i]) : d;
        return bits_of(d * (double)c->scale);
    }
    if (c->src_dtype == ZERO_I32 || c->src_dtype == ZERO_I64 || c->src_dtype == ZERO_U8) {
        uint64_t a = x[0];
        for (int i = 1; i < n; i++)
            a = sum ? a + x[i] : max_int(c->src_dtype, a, x[i]);
        return a;
    }
    for (int i = 1; i < n; i++) {
        float y = value_float(c->src_dtype, x[i]);
        if (sum)
            f = f + y;
        else if (f == f && (y != y || y > f))
            f = y;
    }
    f = f * c->scale;
    if (c->flags & ZERO_COLL_ACCUMULATE)
        f = value_float(ZERO_F32, old) + f;
    return value_round(c->dst_dtype, f);
}

#endif
