/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file types.h
 * Element types and the canonical conversions between them, shared by applications and plugins.
 *
 * Every implementation of a sum or an update, on any device, must round exactly as the functions
 * below do; the promise of equal bits across stages, buckets, transports and tiers rests on it.
 */
#ifndef ZERO_TYPES_H
#define ZERO_TYPES_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Before each function of this header: in CUDA code they are there on both sides. */
#ifdef __CUDACC__
#define ZERO_INLINE static inline __host__ __device__
#else
#define ZERO_INLINE static inline
#endif

/** Element types. The values are part of the ABI; new ones are only appended. */
enum zero_dtype {
    ZERO_F32 = 1,
    ZERO_BF16 = 2,
    ZERO_F16 = 3,
    ZERO_I32 = 4,
    ZERO_I64 = 5,
    ZERO_U8 = 6, /**< bytes */
    ZERO_F64 = 7,
};

/** How much a log message matters. */
enum zero_log_level {
    ZERO_LOG_ERROR = 1,
    ZERO_LOG_WARN = 2,
    ZERO_LOG_INFO = 3,
    ZERO_LOG_DEBUG = 4,
    ZERO_LOG_TRACE = 5,
};

/** Where memory lies; a bit mask where several are meant. */
enum zero_mem {
    ZERO_MEM_HOST = 1u << 0,
    ZERO_MEM_PINNED = 1u << 1,
    ZERO_MEM_CUDA = 1u << 2,
};

/** Bytes of one element, 0 for an unknown type. */
ZERO_INLINE uint32_t zero_dtype_bytes(uint32_t dtype)
{
    switch (dtype) {
    case ZERO_F32:
    case ZERO_I32:
        return 4;
    case ZERO_BF16:
    case ZERO_F16:
        return 2;
    case ZERO_I64:
    case ZERO_F64:
        return 8;
    case ZERO_U8:
        return 1;
    default:
        return 0;
    }
}

/** Name of an element type as options and reports write it, "?" for an unknown one. */
ZERO_INLINE const char *zero_dtype_name(uint32_t dtype)
{
    switch (dtype) {
    case ZERO_F32:
        return "fp32";
    case ZERO_BF16:
        return "bf16";
    case ZERO_F16:
        return "fp16";
    case ZERO_I32:
        return "int32";
    case ZERO_I64:
        return "int64";
    case ZERO_U8:
        return "bytes";
    case ZERO_F64:
        return "fp64";
    default:
        return "?";
    }
}

/** The 32 bits of an fp32 value. */
ZERO_INLINE uint32_t zero_bits_of_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/** The fp32 value of 32 bits. */
ZERO_INLINE float zero_float_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/**
 * fp32 to bf16, half away from zero, NaN kept (quiet). The 16 bits cut off restore the fp32 value
 * exactly: (bf16 << 16) + sign-extended low half is the original, which is why this rounding is
 * chosen over half-to-even.
 */
ZERO_INLINE uint16_t zero_bf16_from_float(float x)
{
    uint32_t u = zero_bits_of_float(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x0040u);
    return (uint16_t)((u + 0x8000u) >> 16);
}

/** Exact. */
ZERO_INLINE float zero_float_from_bf16(uint16_t h)
{
    return zero_float_of_bits((uint32_t)h << 16);
}

/** What zero_bf16_from_float() cut off. */
ZERO_INLINE uint16_t zero_low_half(float x)
{
    return (uint16_t)zero_bits_of_float(x);
}

/** The fp32 value, to the bit, of which zero_bf16_from_float() and zero_low_half() made halves */
ZERO_INLINE float zero_join_bf16(uint16_t h, uint16_t low)
{
    uint32_t u = (uint32_t)h << 16;
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return zero_float_of_bits(u | low);
    return zero_float_of_bits(u + (uint32_t)(int32_t)(int16_t)low);
}

/** 32 bits that look random, of an element's number (modulo 2^32) and a step (the same). */
ZERO_INLINE uint32_t zero_rounding(uint64_t number, uint64_t step)
{
    uint32_t x = (uint32_t)number * 0x9e3779b1u + (uint32_t)step * 0x7feb352du;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

/** fp32 to bf16, up or down as `r` (16 random bits) decides, NaN kept (quiet). */
ZERO_INLINE uint16_t zero_bf16_rounded(float x, uint16_t r)
{
    uint32_t u = zero_bits_of_float(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x0040u);
    return (uint16_t)((u + r) >> 16);
}

/** fp32 to fp16, round to nearest even as IEEE 754 and F16C do; overflow gives infinity. */
ZERO_INLINE uint16_t zero_fp16_from_float(float x)
{
    uint32_t u = zero_bits_of_float(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x47800000u) /* 65536 and above, infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* below the smallest normal: let the FPU round the subnormal */
        float m = zero_float_of_bits(a) + 0.5f;
        return (uint16_t)(sign | (zero_bits_of_float(m) - 0x3f000000u));
    }
    a += 0xc8000fffu + ((a >> 13) & 1u);
    return (uint16_t)(sign | (a >> 13));
}

/** Exact; a NaN becomes quiet. */
ZERO_INLINE float zero_float_from_fp16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
    if (a >= 0x7c00u)
        return zero_float_of_bits(sign | 0x7f800000u | ((a & 0x3ffu) << 13) |
                                  (a > 0x7c00u ? 0x00400000u : 0));
    if (a >= 0x0400u)
        return zero_float_of_bits(sign | ((a << 13) + 0x38000000u));
    float m = (float)a * 5.9604644775390625e-8f; /* 2^-24, exact */
    return zero_float_of_bits(sign | zero_bits_of_float(m));
}

#ifdef __cplusplus
}
#endif
#endif
