/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates on states in fewer bytes: masters in two halves keep every bit; bf16 moments are those of
 * the whole update, rounded as zero/device.h says, however the work is cut; small changes add up.
 */
#include "kernel.h"

#include <errno.h>

#define ROOM 40000u

struct states {
    float p[ROOM], m[ROOM], v[ROOM];
    uint16_t out[ROOM], low[ROOM], half_m[ROOM], half_v[ROOM];
};

static struct states packed, whole;
static float grad[ROOM];

static const struct zero_hyper hyper = {.lr = 3e-3f,
                                        .weight_decay = 0.1f,
                                        .beta1 = 0.9f,
                                        .beta2 = 0.95f,
                                        .eps = 1e-8f,
                                        .momentum = 0.9f};

/* What both begin with: masters that are their halves joined, moments that bf16 can hold. */
static void randomise(uint64_t *seed)
{
    for (uint64_t i = 0; i < ROOM; i++) {
        packed.p[i] = uniform(seed);
        packed.out[i] = zero_bf16_from_float(packed.p[i]);
        packed.low[i] = zero_low_half(packed.p[i]);
        packed.half_m[i] = zero_bf16_from_float(uniform(seed));
        packed.half_v[i] = zero_bf16_from_float(fabsf(uniform(seed)));
        packed.m[i] = zero_float_from_bf16(packed.half_m[i]);
        packed.v[i] = zero_float_from_bf16(packed.half_v[i]);
        grad[i] = uniform(seed);
    }
    whole = packed;
}

static struct zero_update_args arguments(struct states *s, const struct zero_scalars *step,
                                         uint64_t at, uint64_t n, bool halves, bool half_states)
{
    return (struct zero_update_args){
        .p = halves ? NULL : s->p + at,
        .low = halves ? s->low + at : NULL,
        .m = half_states ? (void *)(s->half_m + at) : (void *)(s->m + at),
        .v = half_states ? (void *)(s->half_v + at) : (void *)(s->v + at),
        .state_dtype = half_states ? ZERO_BF16 : ZERO_F32,
        .grad = grad + at,
        .out = s->out + at,
        .count = n,
        .grad_dtype = ZERO_F32,
        .out_dtype = ZERO_BF16,
        .scalars = step,
        .hyper = hyper,
        .first = at,
    };
}

/* What the whole states look like when they are packed after the update. */
static void pack_whole(uint64_t at, uint64_t n, uint64_t step, bool halves, bool half_states,
                       bool momentum, bool variance)
{
    for (uint64_t i = at; i < at + n; i++) {
        uint32_t r = zero_rounding(i, step);
        if (halves)
            whole.low[i] = zero_low_half(whole.p[i]);
        if (half_states && momentum)
            whole.half_m[i] = zero_bf16_rounded(whole.m[i], (uint16_t)r);
        if (half_states && variance)
            whole.half_v[i] = zero_bf16_rounded(whole.v[i], (uint16_t)(r >> 16));
    }
}

static bool agrees(bool halves, bool half_states)
{
    bool good = memcmp(packed.out, whole.out, sizeof whole.out) == 0 &&
                memcmp(packed.low, whole.low, sizeof whole.low) == 0 &&
                memcmp(packed.half_m, whole.half_m, sizeof whole.half_m) == 0 &&
                memcmp(packed.half_v, whole.half_v, sizeof whole.half_v) == 0;

    if (!halves)
        good &= memcmp(packed.p, whole.p, sizeof whole.p) == 0;
    if (!half_states)
        good &= memcmp(packed.m, whole.m, sizeof whole.m) == 0 &&
                memcmp(packed.v, whole.v, sizeof whole.v) == 0;
    return good;
}

static void variants(enum zero__isa isa)
{
    for (uint32_t kernel = ZERO_KERNEL_ADAMW; kernel <= ZERO_KERNEL_SGD; kernel++) {
        uint64_t seed = SEED;
        bool good = true;
        int round = 0;
        for (; round < 36 && good; round++) {
            bool halves = round % 3 != 1, half_states = round % 3 != 0;
            bool adam = kernel == ZERO_KERNEL_ADAMW;
            uint64_t n = random_next(&seed) % (round % 4 ? 1100 : 39000) + 1;
            uint64_t at = random_next(&seed) % 40;
            struct zero_scalars s = {.factor = 0.5f, .step = random_next(&seed) % 3000 + 1};
            randomise(&seed);
            struct zero_update_args a = arguments(&packed, &s, at, n, halves, half_states);
            struct zero_update_args b = arguments(&whole, &s, at, n, false, false);
            run_kernel(isa, kernel, &a);
            run_kernel(isa, kernel, &b);
            pack_whole(at, n, s.step, halves, half_states, true, adam);
            good = agrees(halves, half_states);
        }
        if (!ok(good, "%s: %s in all variants", zero__loops(isa)->name, zero__launch_name(kernel)))
            diag("round %d, seed %" PRIu64, round - 1, SEED);
    }
}

static void keeps_all(void)
{
    uint64_t seed = SEED;
    bool good = true;

    randomise(&seed);
    for (uint64_t step = 1; step <= 50 && good; step++) {
        struct zero_scalars s = {.factor = 1, .step = step};
        struct zero_update_args a = arguments(&packed, &s, 0, ROOM, true, false);
        struct zero_update_args b = arguments(&whole, &s, 0, ROOM, false, false);
        run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &a);
        run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &b);
        pack_whole(0, ROOM, step, true, false, true, true);
        good = agrees(true, false);
    }
    ok(good, "after 50 steps masters in two halves are those in one");
}

static void every_value(void)
{
    bool good = true;

    for (uint64_t u = 0; u < UINT64_C(1) << 32 && good; u += 4099) {
        float x = zero_float_of_bits((uint32_t)u);
        good = same(x, zero_join_bf16(zero_bf16_from_float(x), zero_low_half(x)));
    }
    for (uint64_t i = 0; i < 21; i++)
        good &= same(special(i),
                     zero_join_bf16(zero_bf16_from_float(special(i)), zero_low_half(special(i))));
    ok(good, "halves joined are the value, from zeros to NaNs");
}

static void cuts(void)
{
    struct zero_scalars s = {.factor = 1, .step = 7};
    uint64_t seed = SEED;

    randomise(&seed);
    struct zero_update_args a = arguments(&whole, &s, 0, ROOM, true, true);
    run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &a);
    for (uint64_t at = 0, n; at < ROOM; at += n) {
        n = random_next(&seed) % 3000 + 1;
        n = n < ROOM - at ? n : ROOM - at;
        a = arguments(&packed, &s, at, n, true, true);
        run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &a);
    }
    if (!ok(agrees(true, true), "cut at random places: the same bits"))
        diag("seed %" PRIu64, SEED);
}

static void skipped(void)
{
    struct zero_scalars s = {.factor = 0, .skip = 1, .step = 5};
    uint64_t seed = SEED;

    randomise(&seed);
    struct zero_update_args a = arguments(&packed, &s, 0, ROOM, true, true);
    run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &a);
    ok(memcmp(&packed, &whole, sizeof whole) == 0, "a skipped step leaves every bit");
}

/* v grows by a thousandth of what is missing, less than half a step of bf16 long before its end. */
static void small_changes(void)
{
    enum { N = 2000, STEPS = 4000 };
    double mean = 0;
    float stuck = 0;

    for (int i = 0; i < N; i++) {
        packed.out[i] = packed.low[i] = packed.half_m[i] = packed.half_v[i] = 0;
        grad[i] = 1;
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct zero_scalars s = {.factor = 1, .step = step};
        struct zero_update_args a = arguments(&packed, &s, 0, N, true, true);
        a.hyper.beta2 = 0.999f;
        run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &a);
        stuck = zero_float_from_bf16(zero_bf16_from_float(stuck + 0.001f * (1 - stuck)));
    }
    for (int i = 0; i < N; i++)
        mean += zero_float_from_bf16(packed.half_v[i]) / N;
    double want = 1 - pow(0.999, STEPS);
    diag("the mean of v is %.4f, should be %.4f; rounded to nearest it would stop at %.4f", mean,
         want, (double)stuck);
    ok(fabs(mean - want) < 0.005, "small changes of a bf16 variance add up");
    ok(stuck < 0.8f, "which rounding to nearest would lose");
}

static void refused(void)
{
    struct zero_scalars s = {.factor = 1, .step = 1};
    struct zero_update_args a = arguments(&packed, &s, 0, 10, true, false);
    struct zero_launch l = {.kernel = ZERO_KERNEL_ADAMW, .args = &a, .args_bytes = sizeof a};

    a.out_dtype = ZERO_F16;
    is_int(zero__kernel_check(&l), -EINVAL, "halves of fp16 parameters are refused");
    a.out_dtype = ZERO_BF16;
    a.state_dtype = ZERO_F16;
    is_int(zero__kernel_check(&l), -EINVAL, "so are fp16 moments");
    a.state_dtype = ZERO_F32;
    a.low = NULL;
    is_int(zero__kernel_check(&l), -EINVAL, "and no master at all");
}

int main(void)
{
    for (unsigned i = 0; i < N_ISAS; i++)
        if (zero__loops(all_isas[i]))
            variants(all_isas[i]);
        else
            skip("variants", "instruction set missing on this CPU");
    keeps_all();
    every_value();
    cuts();
    skipped();
    small_changes();
    refused();
    done();
}
