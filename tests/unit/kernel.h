/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of kernels: the instruction sets to try, random numbers, awkward values. */
#ifndef ZERO_TESTS_UNIT_KERNEL_H
#define ZERO_TESTS_UNIT_KERNEL_H

#include "../random.h"
#include "../tap.h"

#include <math.h>

#include "device/kernels.h"
#include "launch/check.h"

#define SEED UINT64_C(20240229)

static const enum zero__isa all_isas[] = {ZERO__ISA_SCALAR, ZERO__ISA_AVX2, ZERO__ISA_AVX512};
#define N_ISAS 3
static const uint32_t reals[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
#define N_REALS 3

/* In [-1, 1). */
__attribute__((unused)) static float uniform(uint64_t *state)
{
    return (float)(int32_t)(random_next(state) >> 32) * 0x1p-31f;
}

__attribute__((unused)) static float get(const void *x, uint64_t i, uint32_t dtype)
{
    switch (dtype) {
    case ZERO_BF16:
        return zero_float_from_bf16(((const uint16_t *)x)[i]);
    case ZERO_F16:
        return zero_float_from_fp16(((const uint16_t *)x)[i]);
    default:
        return ((const float *)x)[i];
    }
}

__attribute__((unused)) static void put(void *x, uint64_t i, uint32_t dtype, float value)
{
    switch (dtype) {
    case ZERO_BF16:
        ((uint16_t *)x)[i] = zero_bf16_from_float(value);
        break;
    case ZERO_F16:
        ((uint16_t *)x)[i] = zero_fp16_from_float(value);
        break;
    default:
        ((float *)x)[i] = value;
    }
}

/* Zeros, subnormals, the largest, infinities, a NaN, and values around the ends of fp16. */
__attribute__((unused)) static float special(uint64_t i)
{
    static const uint32_t bits[] = {
        0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
        0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x33000000, 0x33000001, 0x387fffff,
        0x38800000, 0x477fefff, 0x477ff000, 0x47800000, 0x3f808000, 0x3f818000, 0x3f7fffff,
    };
    return zero_float_of_bits(bits[i % (sizeof bits / sizeof *bits)]);
}

/* Seldom a special one, where there are to be any. */
__attribute__((unused)) static float some(uint64_t *seed, bool specials)
{
    return specials && random_next(seed) % 8 == 0 ? special(random_next(seed)) : uniform(seed);
}

/* Same bits; of NaNs only that they are NaNs, because operand order decides their payload. */
__attribute__((unused)) static bool same(float a, float b)
{
    return zero_bits_of_float(a) == zero_bits_of_float(b) || (isnan(a) && isnan(b));
}

/* Runs all chunks of a launch, the last one first: their order must not matter. */
__attribute__((unused)) static void run_kernel(enum zero__isa isa, uint32_t kernel,
                                               const void *args)
{
    for (uint64_t i = zero__kernel_chunks(kernel, args); i--;)
        zero__kernel_run(zero__loops(isa), kernel, args, i);
}

#endif
