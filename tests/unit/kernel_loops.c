/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FILL, ACCUMULATE and SUMSQ of every instruction set against the plainest reading of
 * zero/device.h, at random sizes and offsets, with guards around what may be written; and what the
 * check of a launch refuses.
 */
#include "kernel.h"

#include <errno.h>

#include "base/status.h"

#define ROOM 150000u
#define GUARD 64u

static float acc[ROOM], want[ROOM];
static float x[ROOM];

static uint64_t size_of(uint64_t *seed, int round)
{
    static const uint64_t edges[] = {1,    2,    7,    8,     15,    16,    17,     31,    32,
                                     4095, 4096, 4097, 32767, 32768, 32769, 131072, 100003};
    if (round < 17)
        return edges[round];
    return 1 + random_next(seed) % (round & 1 ? 100 : 100000);
}

static void randomise(uint64_t *seed, uint32_t dtype, bool specials)
{
    for (uint64_t i = 0; i < ROOM; i++) {
        put(x, i, dtype, some(seed, specials));
        acc[i] = some(seed, specials);
    }
    memcpy(want, acc, sizeof acc);
}

static bool accumulate_agrees(enum zero__isa isa, uint32_t dtype, uint64_t *seed, int round)
{
    uint64_t n = size_of(seed, round), at = GUARD + random_next(seed) % 32;
    uint64_t from = random_next(seed) % 32;
    struct zero_accumulate_args a = {
        .acc = acc + at,
        .x = (const char *)x + from * zero_dtype_bytes(dtype),
        .count = n,
        .x_dtype = dtype,
        .beta = round & 1,
    };

    for (uint64_t i = 0; i < n; i++)
        want[at + i] = (a.beta ? want[at + i] : 0.0f) + get(x, from + i, dtype);
    run_kernel(isa, ZERO_KERNEL_ACCUMULATE, &a);
    for (uint64_t i = 0; i < at + n + GUARD; i++)
        if (!same(acc[i], want[i])) {
            diag("round %d, %s, count %" PRIu64 ": element %" PRIu64
                 " is %a, want %a, seed %" PRIu64,
                 round, zero_dtype_name(dtype), n, i - at, (double)acc[i], (double)want[i], SEED);
            return false;
        }
    return true;
}

static double block_sum(const void *values, uint64_t first, uint64_t n, uint32_t dtype)
{
    double lane[16] = {0};

    for (uint64_t i = 0; i < n; i++) {
        double a = get(values, first + i, dtype);
        lane[i % 16] += a * a;
    }
    for (int j = 0; j < 8; j++)
        lane[j] = lane[j] + lane[j + 8];
    for (int j = 0; j < 4; j++)
        lane[j] = lane[j] + lane[j + 4];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static bool sumsq_agrees(enum zero__isa isa, uint32_t dtype, uint64_t *seed, int round)
{
    static double partial[ROOM / ZERO_SUMSQ_BLOCK + 3];
    uint64_t n = size_of(seed, round), from = random_next(seed) % 32, blocks = (n + 4095) / 4096;
    struct zero_sumsq_args a = {
        .partial = partial + 1,
        .x = (const char *)x + from * zero_dtype_bytes(dtype),
        .count = n,
        .dtype = dtype,
    };
    bool good;

    partial[0] = partial[blocks + 1] = -7;
    run_kernel(isa, ZERO_KERNEL_SUMSQ, &a);
    good = partial[0] == -7 && partial[blocks + 1] == -7;
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t first = b * 4096;
        double s = block_sum(x, from + first, n - first < 4096 ? n - first : 4096, dtype);
        good &= memcmp(&s, &partial[b + 1], sizeof s) == 0 || (isnan(s) && isnan(partial[b + 1]));
    }
    if (!good)
        diag("round %d, %s, count %" PRIu64 ", seed %" PRIu64, round, zero_dtype_name(dtype), n,
             SEED);
    return good;
}

static void loops(enum zero__isa isa)
{
    const char *name = zero__loops(isa)->name;

    for (unsigned t = 0; t < N_REALS; t++) {
        bool good = true;
        uint64_t seed = SEED;
        for (int round = 0; round < 30 && good; round++) {
            if (round % 10 == 0)
                randomise(&seed, reals[t], round == 10);
            good = accumulate_agrees(isa, reals[t], &seed, round);
        }
        ok(good, "%s: accumulate %s", name, zero_dtype_name(reals[t]));
        good = true;
        for (int round = 0; round < 30 && good; round++) {
            if (round % 10 == 0)
                randomise(&seed, reals[t], round == 10);
            good = sumsq_agrees(isa, reals[t], &seed, round);
        }
        ok(good, "%s: sumsq %s", name, zero_dtype_name(reals[t]));
    }
}

static void fill(void)
{
    static uint64_t first[200], count[200];
    struct zero_fill_args a = {
        .dst = x, .dtype = ZERO_BF16, .n = 200, .first = first, .count = count};
    uint16_t *h = (uint16_t *)x;
    bool good = true;

    memset(x, 0x55, sizeof x);
    for (uint64_t i = 0; i < 200; i++) {
        first[i] = i * 1000 + i;
        count[i] = i % 64;
    }
    run_kernel(ZERO__ISA_SCALAR, ZERO_KERNEL_FILL, &a);
    for (uint64_t i = 0; i < 201000; i++) {
        uint64_t run = i / 1001 < 200 ? i / 1001 : 199;
        bool inside = i >= first[run] && i < first[run] + count[run];
        good &= h[i] == (inside ? 0 : 0x5555);
    }
    ok(good, "fill zeroes many runs and nothing else");

    memset(x, 0x55, sizeof x);
    first[0] = 3;
    count[0] = 140001;
    a = (struct zero_fill_args){
        .dst = x, .dtype = ZERO_F32, .n = 1, .first = first, .count = count};
    is_int(zero__kernel_chunks(ZERO_KERNEL_FILL, &a), 3, "one long run has several chunks");
    run_kernel(ZERO__ISA_SCALAR, ZERO_KERNEL_FILL, &a);
    good = zero_bits_of_float(x[2]) == 0x55555555 && zero_bits_of_float(x[140004]) == 0x55555555;
    for (uint64_t i = 3; i < 140004; i++)
        good &= zero_bits_of_float(x[i]) == 0;
    ok(good, "and is zeroed to its ends");
}

static int check(uint32_t kernel, const void *args, uint64_t bytes)
{
    struct zero_launch l = {.kernel = kernel, .args = args, .args_bytes = bytes};
    return zero__kernel_check(&l);
}

static void refusals(void)
{
    struct zero_accumulate_args a = {.acc = acc, .x = x, .count = 10, .x_dtype = ZERO_F32};

    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), 0, "a good launch passes");
    is_int(check(99, &a, sizeof a), -ENOTSUP, "an unknown kernel does not");
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a - 1), -EINVAL, "nor arguments too short");
    a.x_dtype = ZERO_I64;
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), -EINVAL, "nor integers");
    has_str(zero__error_text(), "the type of x is int64", "the sentence names what");
    a.x_dtype = ZERO_F32;
    a.x = (const char *)x + 2;
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), -EINVAL, "nor half an element's alignment");
    a.x = NULL;
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), -EINVAL, "nor NULL");
    a.count = 0;
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), 0, "unless there is nothing to do");
    is_int(zero__kernel_chunks(ZERO_KERNEL_ACCUMULATE, &a), 0, "which has no chunk");
    a.x = x;
    a.count = UINT64_MAX / 4;
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), -EINVAL, "nor more than memory");
    a.count = 1;
    a.beta = 2;
    is_int(check(ZERO_KERNEL_ACCUMULATE, &a, sizeof a), -EINVAL, "nor beta 2");

    enum zero__isa isa;
    ok(zero__isa_parse("avx2", &isa), "an instruction set has a name");
    is_int(isa, ZERO__ISA_AVX2, "that means it");
    ok(!zero__isa_parse("neon", &isa), "others are refused");
    ok(zero__loops(ZERO__ISA_AUTO) != NULL, "every machine has loops");
}

int main(void)
{
    for (unsigned i = 0; i < N_ISAS; i++)
        if (zero__loops(all_isas[i]))
            loops(all_isas[i]);
        else
            skip("loops", "instruction set missing on this CPU");
    fill();
    refusals();
    done();
}
