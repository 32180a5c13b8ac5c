/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers without state: the value number `counter` of stream `stream` under `seed`, so that
 * any rank can compute any weight or sample position by itself. Only integer arithmetic and IEEE
 * operations in a fixed order: the same bits on every machine (tests/reference has the same
 * functions in Python).
 */
#ifndef GPT2_RANDOM_H
#define GPT2_RANDOM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Streams of one seed; tensor t uses GPT2_STREAM_WEIGHTS + t. */
enum gpt2_stream {
    GPT2_STREAM_DATA = 1,
    GPT2_STREAM_SAMPLE = 2,
    GPT2_STREAM_WEIGHTS = 1000,
};

/* Finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t gpt2_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t gpt2_key(uint64_t seed, uint64_t stream)
{
    return gpt2_mix(gpt2_mix(seed + UINT64_C(0x9e3779b97f4a7c15)) +
                    stream * UINT64_C(0xd1342543de82ef95));
}

static inline uint64_t gpt2_random(uint64_t key, uint64_t counter)
{
    return gpt2_mix(key + counter * UINT64_C(0x9e3779b97f4a7c15));
}

/* In (0, 1), never either end: (k + 1/2) / 2^52, by setting the bits of a number in [1, 2). */
static inline double gpt2_uniform(uint64_t key, uint64_t counter)
{
    const uint64_t bits = gpt2_random(key, counter) >> 12 | UINT64_C(0x3ff0000000000000);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x - (1 - 0x1p-53);
}

/* In [0, n), n > 0. */
static inline uint64_t gpt2_below(uint64_t key, uint64_t counter, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)gpt2_random(key, counter) * n) >> 64);
}

/* Natural logarithm of x in (0, 1) by the series of atanh: libm's last bit differs by machine. */
static inline double gpt2_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return 2 * s * sum + e * 0.69314718055994531;
}

/*
 * Standard normal numbers are the inverse of the normal distribution at uniform ones, by P. J.
 * Acklam's rational approximation (relative error 1.2e-9). This is its middle part, for all but
 * GPT2_NORMAL_TAIL at each end.
 */
#define GPT2_NORMAL_TAIL 0.02425

static inline double gpt2_normal_middle(double u)
{
    const double q = u - 0.5, r = q * q;
    const double a =
        ((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r + -2.759285104469687e+02) * r +
          1.383577518672690e+02) *
             r +
         -3.066479806614716e+01) *
            r +
        2.506628277459239e+00;
    const double b =
        ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r + -1.556989798598866e+02) * r +
          6.680131188771972e+01) *
             r +
         -1.328068155288572e+01) *
            r +
        1;
    return a * q / b;
}

static inline double gpt2_normal_tail(double u)
{
    const double q = sqrt(-2 * gpt2_log(u < 0.5 ? u : 1 - u));
    const double a =
        ((((-7.784894002430293e-03 * q + -3.223964580411365e-01) * q + -2.400758277161838e+00) * q +
          -2.549732539343734e+00) *
             q +
         4.374664141464968e+00) *
            q +
        2.938163982698783e+00;
    const double b =
        (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
         3.754408661907416e+00) *
            q +
        1;
    return u < 0.5 ? a / b : -(a / b);
}

#endif
