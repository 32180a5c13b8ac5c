/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions: zero/types.h against long-hand rounding, and CAST of every instruction set with it.
 */
#include "kernel.h"

#define BATCH 65536u

static uint32_t x[BATCH], wide[BATCH];
static uint16_t half[BATCH];

/* fp16 by definition: the nearest of all 65536, ties to the even one; exact in fp64. */
static uint16_t nearest_half(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0, low = 0, high = 0x7c00;
    double a = fabs((double)value);

    if (a >= 65520) /* half of the step beyond 65504 */
        return sign | 0x7c00;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        double m = middle == 0x7c00 ? 65536 : (double)zero_float_from_fp16(middle);
        if (m <= a)
            low = middle;
        else
            high = middle;
    }
    double below = zero_float_from_fp16(low);
    double above = high == 0x7c00 ? 65536 : (double)zero_float_from_fp16(high);
    bool up = a - below > above - a || (a - below == above - a && (low & 1));
    return sign | (up ? high : low);
}

static float half_value(uint16_t h)
{
    int e = (h >> 10) & 31, f = h & 0x3ff;
    float a = e == 31 ? (f ? NAN : INFINITY) : ldexpf((float)(e ? f | 0x400 : f), (e ? e : 1) - 25);
    return h & 0x8000 ? -a : a;
}

static void definitions(void)
{
    bool good = true, back = true, rest = true;
    uint64_t seed = SEED;

    for (uint32_t h = 0; h < BATCH; h++) {
        float a = zero_float_from_fp16((uint16_t)h);
        good &= same(a, half_value((uint16_t)h));
        back &= isnan(a) ? zero_fp16_from_float(a) == (h | 0x200) : zero_fp16_from_float(a) == h;
        a = zero_float_from_bf16((uint16_t)h);
        back &= isnan(a) ? zero_bf16_from_float(a) == (h | 0x40) : zero_bf16_from_float(a) == h;
    }
    ok(good, "every fp16 value is what its bits say");
    ok(back, "every fp16 and bf16 value survives the way through fp32, NaNs quiet");

    good = true;
    for (uint32_t i = 0; i < 400000; i++) {
        /* every other one near the range of fp16 */
        uint32_t u = (uint32_t)random_next(&seed);
        float a = zero_float_of_bits(i & 1 ? u : (u & 0x9fffffff) | 0x20000000);
        if (i % 8 == 0) /* ties: a value and half a step */
            a = zero_float_of_bits((u & 0xffffe000u) | 0x1000u);
        if (isnan(a))
            continue;
        good &= zero_fp16_from_float(a) == nearest_half(a);
        u = zero_bits_of_float(a);
        int32_t cut = (int16_t)(u & 0xffff);
        rest &= ((uint32_t)zero_bf16_from_float(a) << 16) + (uint32_t)cut == u;
    }
    if (!ok(good, "fp32 to fp16 gives the nearest, ties to even"))
        diag("seed %" PRIu64, SEED);
    ok(rest, "bf16 and the 16 bits cut off restore the fp32 value");
    is_int(zero_bf16_from_float(zero_float_of_bits(0x3f808000)), 0x3f81, "a tie rounds away");
    is_int(zero_bf16_from_float(zero_float_of_bits(0xbf808000)), 0xbf81, "on both sides of zero");
}

static void cast(enum zero__isa isa, void *dst, uint32_t to, const void *from, uint32_t type)
{
    struct zero_cast_args a = {
        .dst = dst, .x = from, .count = BATCH, .dst_dtype = to, .x_dtype = type};
    run_kernel(isa, ZERO_KERNEL_CAST, &a);
}

static void all_halves(enum zero__isa isa)
{
    static uint16_t other[BATCH];
    bool widen[2] = {true, true}, cross[2] = {true, true}, equal = true;

    for (uint32_t i = 0; i < BATCH; i++)
        half[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++) {
        uint32_t type = t ? ZERO_BF16 : ZERO_F16, opposite = t ? ZERO_F16 : ZERO_BF16;
        cast(isa, wide, ZERO_F32, half, type);
        cast(isa, other, opposite, half, type);
        for (uint32_t i = 0; i < BATCH; i++) {
            uint16_t want;
            put(&want, 0, opposite, get(half, i, type));
            widen[t] &= wide[i] == zero_bits_of_float(get(half, i, type));
            cross[t] &= other[i] == want;
        }
        cast(isa, other, type, half, type);
        equal &= memcmp(other, half, sizeof half) == 0;
    }
    ok(widen[0] && cross[0], "%s: every fp16 to fp32 and bf16", zero__loops(isa)->name);
    ok(widen[1] && cross[1], "%s: every bf16 to fp32 and fp16", zero__loops(isa)->name);
    ok(equal, "%s: equal types copy every bit", zero__loops(isa)->name);
}

/* All exponents and signs with awkward mantissas, then random bits: NaN payloads included. */
static void many_floats(enum zero__isa isa)
{
    static const uint32_t mantissas[] = {
        0,      1,      0x7fffff, 0x400000, 0x1000,   0x0fff,   0x1001,   0x3000,   0x8000,
        0x7fff, 0x8001, 0x18000,  0x7fe000, 0x7fefff, 0x7ff000, 0x7f8000, 0x3fffff, 0x200000};
    bool fp16 = true, bf16 = true;
    uint64_t seed = SEED;

    for (int round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < BATCH; i++)
            x[i] = (uint32_t)random_next(&seed);
        for (uint32_t i = 0; round == 0 && i < 512 * 18; i++)
            x[i] = (i / 18) << 23 | mantissas[i % 18];
        cast(isa, half, ZERO_F16, x, ZERO_F32);
        for (uint32_t i = 0; i < BATCH; i++)
            fp16 &= half[i] == zero_fp16_from_float(zero_float_of_bits(x[i]));
        cast(isa, half, ZERO_BF16, x, ZERO_F32);
        for (uint32_t i = 0; i < BATCH; i++)
            bf16 &= half[i] == zero_bf16_from_float(zero_float_of_bits(x[i]));
    }
    ok(fp16, "%s: fp32 to fp16, NaN payloads included", zero__loops(isa)->name);
    ok(bf16, "%s: fp32 to bf16, NaN payloads included", zero__loops(isa)->name);
}

int main(void)
{
    definitions();
    for (unsigned i = 0; i < N_ISAS; i++) {
        if (!zero__loops(all_isas[i])) {
            skip("conversions", "instruction set missing on this CPU");
            continue;
        }
        all_halves(all_isas[i]);
        many_floats(all_isas[i]);
    }
    done();
}
