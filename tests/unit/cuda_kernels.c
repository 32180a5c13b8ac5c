/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every CUDA kernel on an emulated grid against the host's: all types and variants, sizes around
 * every edge, any alignment, the same bits; and conversions over all values that matter.
 */
#include "cuda_case.h"

#define ROUNDS 90u

static struct case_memory memory;

static void all_functions(void)
{
    const struct fake_cuda_options plain = {0};
    const bool brief = is_short();
    char error[400];

    for (uint32_t f = 0; f < ZERO__CUDA_N_KERNELS; f++)
        if (!ok(case_rounds(f, &memory, brief ? ROUNDS / 3 : ROUNDS, SEED, &plain, error,
                            sizeof error),
                "%s: the host's bits", zero__cuda_kernel_name(f)))
            diag("%s", error);
}

/* One CAST of `count` elements on the emulated grid. */
static bool cast(void *dst, uint32_t to, const void *x, uint32_t from, uint64_t count)
{
    struct zero_cast_args a = {
        .dst = dst, .x = x, .count = count, .dst_dtype = to, .x_dtype = from};
    struct zero_launch launch = {.kernel = ZERO_KERNEL_CAST, .args = &a, .args_bytes = sizeof a};
    struct zero__cuda_launch l;
    struct case_host h;
    char error[300];
    uint32_t n;

    case_host_init(&h);
    return zero__cuda_launch_plan(&h.host, 2, &launch, &l, 1, &n) == 0 && n == 1 &&
           fake_cuda_run(l.kernel, l.grid, l.block, l.shared_bytes, l.params, error,
                         sizeof error) == 0;
}

/* Every 16-bit value, as both types, to the other two. */
static void every_half(void)
{
    enum { ALL = 65536 };
    static uint16_t x[ALL], other[ALL];
    static uint32_t wide[ALL];
    bool good = true;

    for (uint32_t i = 0; i < ALL; i++)
        x[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++) {
        uint32_t type = t ? ZERO_BF16 : ZERO_F16, opposite = t ? ZERO_F16 : ZERO_BF16;
        good &= cast(wide, ZERO_F32, x, type, ALL) && cast(other, opposite, x, type, ALL);
        for (uint32_t i = 0; i < ALL; i++) {
            uint16_t want;
            put(&want, 0, opposite, get(x, i, type));
            good &= wide[i] == zero_bits_of_float(get(x, i, type)) && other[i] == want;
        }
    }
    ok(good, "every fp16 and bf16 value is converted as types.h says, NaN payloads included");
}

/* fp32 values: all exponents and signs with awkward mantissas, then evenly spread ones. */
static void many_floats(void)
{
    enum { BATCH = 65536 };
    static const uint32_t mantissas[] = {
        0,      1,      0x7fffff, 0x400000, 0x1000,   0x0fff,   0x1001,   0x3000,   0x8000,
        0x7fff, 0x8001, 0x18000,  0x7fe000, 0x7fefff, 0x7ff000, 0x7f8000, 0x3fffff, 0x200000};
    static uint32_t x[BATCH];
    static uint16_t half[BATCH];
    bool fp16 = true, bf16 = true;
    uint32_t u = 0;

    for (int round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < BATCH; i++)
            x[i] = u += 3277 - (uint32_t)round;
        for (uint32_t i = 0; round == 0 && i < 512 * 18; i++)
            x[i] = (i / 18) << 23 | mantissas[i % 18];
        fp16 &= cast(half, ZERO_F16, x, ZERO_F32, BATCH);
        for (uint32_t i = 0; i < BATCH; i++)
            fp16 &= half[i] == zero_fp16_from_float(zero_float_of_bits(x[i]));
        bf16 &= cast(half, ZERO_BF16, x, ZERO_F32, BATCH);
        for (uint32_t i = 0; i < BATCH; i++)
            bf16 &= half[i] == zero_bf16_from_float(zero_float_of_bits(x[i]));
    }
    ok(fp16, "fp32 to fp16, NaN payloads included");
    ok(bf16, "fp32 to bf16, NaN payloads included");
}

/* Thirty-five sources: three launches that hand on an fp32 sum. */
static void sum_of_many(void)
{
    enum { N = 1000, SOURCES = 35 };
    static uint16_t x[SOURCES][N], dst[N], want[N];
    static float partial[N];
    const void *src[SOURCES];
    uint64_t seed = SEED;
    struct case_host h;
    char error[300] = "";
    int err = 0;

    for (uint32_t s = 0; s < SOURCES; s++) {
        src[s] = x[s];
        for (uint32_t i = 0; i < N; i++)
            put(x[s], i, ZERO_BF16,
                random_next(&seed) % 50 ? uniform(&seed) : special(random_next(&seed)));
    }
    case_host_init(&h);
    for (uint32_t first = 0; first < SOURCES && !err; first += ZERO_SUM_SOURCES) {
        bool last = first + ZERO_SUM_SOURCES >= SOURCES;
        struct zero_sum_args a = {
            .dst = last ? (void *)dst : partial,
            .src = src + first,
            .partial = first ? partial : NULL,
            .count = N,
            .n = last ? SOURCES - first : ZERO_SUM_SOURCES,
            .src_dtype = ZERO_BF16,
            .dst_dtype = last ? ZERO_BF16 : ZERO_F32,
            .scale = last ? 1.0f / SOURCES : 1,
        };
        struct zero__cuda_launch l;
        uint32_t n;
        const struct zero_launch sum = {ZERO_KERNEL_SUM, 0, &a, sizeof a};
        err = zero__cuda_launch_plan(&h.host, 1, &sum, &l, 1, &n);
        if (!err)
            err = fake_cuda_run(l.kernel, l.grid, l.block, l.shared_bytes, l.params, error,
                                sizeof error);
    }
    for (uint32_t i = 0; i < N; i++) {
        float sum = get(x[0], i, ZERO_BF16);
        for (uint32_t s = 1; s < SOURCES; s++)
            sum += get(x[s], i, ZERO_BF16);
        sum *= 1.0f / SOURCES;
        want[i] = zero_bf16_from_float(isnan(sum) ? zero_float_of_bits(0x7fc00000) : sum);
    }
    if (!ok(err == 0 && memcmp(dst, want, sizeof want) == 0,
            "more sources than a launch takes, handed on in fp32"))
        diag("%d %s%s, seed %" PRIu64, err, h.text, error, SEED);
}

int main(void)
{
    case_memory_open(&memory);
    all_functions();
    every_half();
    many_floats();
    sum_of_many();
    case_memory_close(&memory);
    done();
}
