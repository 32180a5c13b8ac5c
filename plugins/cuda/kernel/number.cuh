/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic that rounds once where it stands, whatever a compiler's flags say, and elements in
 * registers. Conversions are those of zero/types.h.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_NUMBER_CUH
#define ZERO_PLUGINS_CUDA_KERNEL_NUMBER_CUH

#include <math.h>
#include <string.h>

#include <zero/types.h>

#include "thread.cuh"

#ifdef __CUDA_ARCH__
#define ZERO__DEVICE_OR_HOST(device, host) device
#else
#define ZERO__DEVICE_OR_HOST(device, host) host /* built with -ffp-contract=off */
#endif

ZERO__GPU float add(float a, float b)
{
    return ZERO__DEVICE_OR_HOST(__fadd_rn(a, b), a + b);
}

ZERO__GPU float subtract(float a, float b)
{
    return ZERO__DEVICE_OR_HOST(__fsub_rn(a, b), a - b);
}

ZERO__GPU float multiply(float a, float b)
{
    return ZERO__DEVICE_OR_HOST(__fmul_rn(a, b), a * b);
}

ZERO__GPU float divide(float a, float b)
{
    return ZERO__DEVICE_OR_HOST(__fdiv_rn(a, b), a / b);
}

ZERO__GPU float root(float a)
{
    return ZERO__DEVICE_OR_HOST(__fsqrt_rn(a), sqrtf(a));
}

/* a * b + c, rounded once */
ZERO__GPU float fused(float a, float b, float c)
{
    return ZERO__DEVICE_OR_HOST(__fmaf_rn(a, b, c), fmaf(a, b, c));
}

ZERO__GPU double add(double a, double b)
{
    return ZERO__DEVICE_OR_HOST(__dadd_rn(a, b), a + b);
}

ZERO__GPU double subtract(double a, double b)
{
    return ZERO__DEVICE_OR_HOST(__dsub_rn(a, b), a - b);
}

ZERO__GPU double multiply(double a, double b)
{
    return ZERO__DEVICE_OR_HOST(__dmul_rn(a, b), a * b);
}

ZERO__GPU double divide(double a, double b)
{
    return ZERO__DEVICE_OR_HOST(__ddiv_rn(a, b), a / b);
}

ZERO__GPU double root(double a)
{
    return ZERO__DEVICE_OR_HOST(__dsqrt_rn(a), sqrt(a));
}

/* sum + a * a; the square of an fp32 value is exact in fp64, so this rounds as two steps do. */
ZERO__GPU double add_square(double sum, double a)
{
    return ZERO__DEVICE_OR_HOST(__fma_rn(a, a, sum), sum + a * a);
}

ZERO__GPU float narrow(double a)
{
    return ZERO__DEVICE_OR_HOST(__double2float_rn(a), static_cast<float>(a));
}

/* Trivial types as registers, and back. */
template <class T> ZERO__GPU raw<sizeof(T)> to_raw(const T &value)
{
    raw<sizeof(T)> r;
    memcpy(&r, &value, sizeof r);
    return r;
}

template <class T> ZERO__GPU T from_raw(const raw<sizeof(T)> &r)
{
    T value;
    memcpy(&value, &r, sizeof r);
    return value;
}

/* The k-th element of WIDTH bytes. */
template <uint32_t WIDTH, uint32_t BYTES>
ZERO__GPU uint32_t element(const raw<BYTES> &r, uint32_t k)
{
    if constexpr (WIDTH == 4)
        return r.w[k];
    else
        return r.w[k / 2] >> 16 * (k % 2) & 0xffffu;
}

/* Elements are set in order, from the 0th on. */
template <uint32_t WIDTH, uint32_t BYTES>
ZERO__GPU void set_element(raw<BYTES> &r, uint32_t k, uint32_t bits)
{
    if constexpr (WIDTH == 4)
        r.w[k] = bits;
    else if (k % 2 == 0)
        r.w[k / 2] = bits;
    else
        r.w[k / 2] |= bits << 16;
}

/* zero_float_from_fp16() without a branch: a power of two makes subnormals normal, too. */
ZERO__GPU float float_from_fp16(uint32_t h)
{
    const uint32_t a = h & 0x7fffu, finite = zero_bits_of_float(multiply(
                                        zero_float_of_bits(a << 13), 0x1p112f));
    const uint32_t other = 0x7f800000u | (a & 0x3ffu) << 13 | (a > 0x7c00u ? 0x00400000u : 0);

    return zero_float_of_bits((h & 0x8000u) << 16 | (a < 0x7c00u ? finite : other));
}

/* zero_fp16_from_float() likewise: all cases are computed, one is taken. */
ZERO__GPU uint32_t fp16_from_float(float x)
{
    const uint32_t u = zero_bits_of_float(x), a = u & 0x7fffffffu;
    const uint32_t normal = (a + 0xc8000fffu + (a >> 13 & 1u)) >> 13;
    const uint32_t small = zero_bits_of_float(add(zero_float_of_bits(a), 0.5f)) - 0x3f000000u;
    const uint32_t nan = 0x7e00u | (a >> 13 & 0x3ffu);
    uint32_t h = a < 0x38800000u ? small : normal;

    h = a >= 0x47800000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? nan : h;
    return (u >> 16 & 0x8000u) | h;
}

/* The fp32 values of N elements of WIDTH bytes; of two, dtype says what they are. */
template <uint32_t WIDTH, uint32_t N, uint32_t BYTES>
ZERO__GPU void to_floats(const raw<BYTES> &r, uint32_t dtype, float (&x)[N])
{
    if (WIDTH == 4 || dtype == ZERO_BF16) {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            x[k] = zero_float_of_bits(element<WIDTH>(r, k) << (WIDTH == 4 ? 0 : 16));
    } else {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            x[k] = float_from_fp16(element<WIDTH>(r, k));
    }
}

template <uint32_t WIDTH, uint32_t N, uint32_t BYTES>
ZERO__GPU void from_floats(raw<BYTES> &r, uint32_t dtype, const float (&x)[N])
{
    if (WIDTH == 4) {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            set_element<WIDTH>(r, k, zero_bits_of_float(x[k]));
    } else if (dtype == ZERO_BF16) {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            set_element<WIDTH>(r, k, zero_bf16_from_float(x[k]));
    } else {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            set_element<WIDTH>(r, k, fp16_from_float(x[k]));
    }
}

#endif
