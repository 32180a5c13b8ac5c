/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for any CPU, and the model of what every instruction set defines for the loops:
 * loads and stores that convert as zero/types.h prescribes, arithmetic that rounds once, and the 16
 * fp64 lanes of SUMSQ. fmaf() is exact on any CPU; where that is no instruction it is slow.
 */
#include <math.h>

#include "device/kernels.h"

#define ISA
#define LOOP static inline __attribute__((always_inline))
#define WIDTH 1

typedef float vec;

LOOP vec load_fp32(const float *x)
{
    return *x;
}

LOOP vec load_bf16(const uint16_t *x)
{
    return zero_float_from_bf16(*x);
}

LOOP vec load_fp16(const uint16_t *x)
{
    return zero_float_from_fp16(*x);
}

LOOP void store_fp32(float *x, vec a)
{
    *x = a;
}

LOOP void store_bf16(uint16_t *x, vec a)
{
    *x = zero_bf16_from_float(a);
}

LOOP void store_fp16(uint16_t *x, vec a)
{
    *x = zero_fp16_from_float(a);
}

/* Past the caches, where there is such a store; x is aligned to a vector of halves. */
LOOP void stream_half(uint16_t *x, uint32_t dtype, vec a)
{
    if (dtype == ZERO_BF16)
        store_bf16(x, a);
    else
        store_fp16(x, a);
}

/* What others do next must not overtake them. */
LOOP void stream_end(void)
{
}

LOOP vec vec_all(float a)
{
    return a;
}

LOOP vec vec_add(vec a, vec b)
{
    return a + b;
}

LOOP vec vec_sub(vec a, vec b)
{
    return a - b;
}

LOOP vec vec_mul(vec a, vec b)
{
    return a * b;
}

LOOP vec vec_div(vec a, vec b)
{
    return a / b;
}

LOOP vec vec_sqrt(vec a)
{
    return sqrtf(a);
}

/* a * b + c, rounded once */
LOOP vec vec_fma(vec a, vec b, vec c)
{
    return fmaf(a, b, c);
}

/* Whatever is not a number becomes the positive quiet NaN. */
LOOP vec vec_one_nan(vec a)
{
    return a == a ? a : zero_float_of_bits(0x7fc00000u);
}

struct lanes {
    double at[16];
};

LOOP struct lanes lanes_zero(void)
{
    return (struct lanes){{0}};
}

LOOP vec load(const void *x, uint64_t i, uint32_t dtype);

/* Adds the squares of elements i … i + 15; a product of two fp32 values is exact in fp64. */
LOOP void lanes_add(struct lanes *sum, const void *x, uint64_t i, uint32_t dtype)
{
    for (unsigned j = 0; j < 16; j++) {
        double a = load(x, i + j, dtype);
        sum->at[j] += a * a;
    }
}

LOOP double lanes_total(const struct lanes *sum, uint32_t dtype)
{
    double t[16];

    (void)dtype; /* every type has its lanes in order here */
    memcpy(t, sum->at, sizeof t);
    for (unsigned half = 8; half; half /= 2)
        for (unsigned j = 0; j < half; j++)
            t[j] += t[j + half];
    return t[0];
}

#include "device/loop_convert.h"
#include "device/loop_packed.h"
#include "device/loop_update.h"

const struct zero__loops zero__loops_scalar = {"scalar", accumulate, cast,         sum,       sumsq,
                                               adamw,    sgd,        adamw_packed, sgd_packed};
