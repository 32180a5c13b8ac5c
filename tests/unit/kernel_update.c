/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ADAMW and SGD: every instruction set, type and flag against zero/device.h read element by
 * element; 100 steps against fp64; and that a skipped step changes nothing.
 */
#include "kernel.h"

#define ROOM 70000u

static float p[ROOM], m[ROOM], v[ROOM], grad[ROOM], out[ROOM];
static float want_p[ROOM], want_m[ROOM], want_v[ROOM];

static double power(double x, uint64_t n)
{
    double r = 1;
    for (; n; n /= 2, x = x * x)
        r = n % 2 ? r * x : r;
    return r;
}

static void reference(uint32_t kernel, const struct zero_update_args *a, uint64_t i)
{
    const struct zero_hyper *h = &a->hyper;
    double bias1 = 1 - power(h->beta1, a->scalars->step);
    double bias2 = 1 - power(h->beta2, a->scalars->step);
    float g = get(a->grad, i, a->grad_dtype) * a->scalars->factor;

    if (h->flags & ZERO_HYPER_COUPLED)
        g = fmaf(h->weight_decay, want_p[i], g);
    else
        want_p[i] *= (float)(1 - (double)h->lr * (double)h->weight_decay);
    if (kernel == ZERO_KERNEL_ADAMW) {
        want_m[i] = fmaf((float)(1 - (double)h->beta1), g - want_m[i], want_m[i]);
        want_v[i] = fmaf(want_v[i], h->beta2, ((float)(1 - (double)h->beta2) * g) * g);
        float d = fmaf(sqrtf(want_v[i]), (float)(1 / sqrt(bias2)), h->eps);
        want_p[i] = fmaf((float)-((double)h->lr / bias1), want_m[i] / d, want_p[i]);
    } else if (h->momentum != 0) {
        float rest = (float)(1 - (double)h->dampening) * g;
        want_m[i] = a->scalars->step == 1 ? g : fmaf(h->momentum, want_m[i], rest);
        g = h->flags & ZERO_HYPER_NESTEROV ? fmaf(h->momentum, want_m[i], g) : want_m[i];
        want_p[i] = fmaf(-h->lr, g, want_p[i]);
    } else {
        want_p[i] = fmaf(-h->lr, g, want_p[i]);
    }
}

static void randomise(uint64_t *seed, uint32_t dtype, bool specials)
{
    for (uint64_t i = 0; i < ROOM; i++) {
        want_p[i] = p[i] = some(seed, specials);
        want_m[i] = m[i] = some(seed, specials);
        want_v[i] = v[i] = fabsf(some(seed, specials));
        put(grad, i, dtype, some(seed, specials));
    }
    memset(out, 0x55, sizeof out);
}

static bool agrees(uint64_t n, uint32_t out_dtype)
{
    const uint16_t *half = (const uint16_t *)out;
    bool good = true;

    for (uint64_t i = 0; i < ROOM; i++)
        good &= same(p[i], want_p[i]) && same(m[i], want_m[i]) && same(v[i], want_v[i]);
    for (uint64_t i = 0; out_dtype != ZERO_F32 && i < n; i++)
        good &=
            same(get(out, i, out_dtype),
                 out_dtype == ZERO_BF16 ? zero_float_from_bf16(zero_bf16_from_float(want_p[i]))
                                        : zero_float_from_fp16(zero_fp16_from_float(want_p[i])));
    return good && half[out_dtype != ZERO_F32 ? n : 0] == 0x5555;
}

/* One launch at a random size, offset and variant. */
static bool one(enum zero__isa isa, uint32_t kernel, uint64_t *seed, int round)
{
    uint32_t grad_dtype = reals[round % 3], out_dtype = reals[round / 3 % 3];
    uint64_t step = round % 4 == 0 ? 1 : random_next(seed) % 3000 + 1;
    uint64_t n = random_next(seed) % (round % 5 ? 200 : 69000) + 1, at = random_next(seed) % 40;
    struct zero_scalars s = {.factor = round % 2 ? 1 : 0.37f, .step = step, .loss_scale = 1};
    struct zero_update_args a = {
        .p = p + at,
        .m = m + at,
        .v = kernel == ZERO_KERNEL_ADAMW ? v + at : NULL,
        .grad = (char *)grad + at * zero_dtype_bytes(grad_dtype),
        .out = out_dtype != ZERO_F32 ? (char *)out + at * 2 : NULL,
        .count = n,
        .grad_dtype = grad_dtype,
        .out_dtype = out_dtype,
        .scalars = &s,
        .hyper = {.lr = 3e-3f,
                  .weight_decay = round % 7 ? 0.1f : 0,
                  .beta1 = 0.9f,
                  .beta2 = 0.95f,
                  .eps = 1e-8f,
                  .momentum = round % 3 ? 0.9f : 0,
                  .dampening = round % 5 ? 0 : 0.25f,
                  .flags = (uint32_t)(random_next(seed) % 4)},
    };
    struct zero_update_args shifted = a;

    randomise(seed, grad_dtype, round % 3 == 1);
    shifted.grad = grad;
    for (uint64_t i = at; i < at + n; i++)
        reference(kernel, &shifted, i);
    memset(out, 0x55, sizeof out);
    run_kernel(isa, kernel, &a);
    if (a.out) /* to where agrees() looks: index by index with p */
        memset((char *)out + (at + n) * 2, 0x55, 64);
    for (uint64_t i = 0; a.out && i < at; i++) /* not written, so make it what is expected */
        put(out, i, out_dtype, want_p[i]);
    return agrees(at + n, out_dtype);
}

/* Past the caches go the same bits, from wherever an update begins. */
static void streamed(enum zero__isa isa)
{
    static float p2[ROOM], m2[ROOM], v2[ROOM], out2[ROOM];
    uint64_t seed = SEED;
    unsigned bad = 0;

    for (int round = 0; round < 72; round++) {
        uint32_t kernel = round % 2 ? ZERO_KERNEL_SGD : ZERO_KERNEL_ADAMW;
        uint64_t n = random_next(&seed) % 3000 + 1;
        uint64_t at = random_next(&seed) % 3 ? 0 : random_next(&seed) % 40;
        struct zero_scalars s = {.factor = 0.37f, .step = 2, .loss_scale = 1};
        struct zero_update_args a = {
            .p = p,
            .m = m,
            .v = round % 2 ? NULL : v,
            .grad = grad,
            .out = (uint16_t *)out + (round % 3 == 2),
            .count = at + n,
            .grad_dtype = reals[round % 3],
            .out_dtype = round % 4 < 2 ? ZERO_BF16 : ZERO_F16,
            .scalars = &s,
            .hyper = {.lr = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .momentum = 0.9f}};
        struct zero__update u;

        randomise(&seed, a.grad_dtype, round % 3 == 1);
        memcpy(p2, p, sizeof p), memcpy(m2, m, sizeof m), memcpy(v2, v, sizeof v);
        a.count = UINT64_C(1) << 20; /* from here on */
        bad += !zero__update_prepare(kernel, &a, &u) || !u.stream;
        a.count = at + n;
        bad += !zero__update_prepare(kernel, &a, &u) || u.stream;
        for (int way = 0; way < 2; way++) {
            u.stream = way;
            (round % 2 ? zero__loops(isa)->sgd : zero__loops(isa)->adamw)(&u, at, n);
            if (way)
                break;
            memcpy(out2, out, sizeof out);
            memset(out, 0x55, sizeof out);
            memcpy(p, p2, sizeof p), memcpy(m, m2, sizeof m), memcpy(v, v2, sizeof v);
        }
        bad += memcmp(out, out2, sizeof out) != 0;
    }
    is_int(bad, 0, "%s: a copy past the caches has the same bits", zero__loops(isa)->name);
}

static void variants(enum zero__isa isa)
{
    for (uint32_t kernel = ZERO_KERNEL_ADAMW; kernel <= ZERO_KERNEL_SGD; kernel++) {
        uint64_t seed = SEED;
        bool good = true;
        int round = 0;
        for (; round < 72 && good; round++)
            good = one(isa, kernel, &seed, round);
        if (!ok(good, "%s: %s in all variants", zero__loops(isa)->name, zero__launch_name(kernel)))
            diag("round %d, seed %" PRIu64, round - 1, SEED);
    }
}

/* The paper's algorithm in fp64, states and all. */
static void against_fp64(void)
{
    enum { N = 1000 };
    static double dp[N], dm[N], dv[N];
    struct zero_scalars s = {.factor = 1};
    struct zero_update_args a = {
        .p = p,
        .m = m,
        .v = v,
        .grad = grad,
        .count = N,
        .grad_dtype = ZERO_F32,
        .scalars = &s,
        .hyper = {.lr = 1e-3f, .weight_decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f},
    };
    double error = 0, size = 0;
    uint64_t seed = SEED;

    for (int i = 0; i < N; i++) {
        dp[i] = p[i] = uniform(&seed);
        dm[i] = m[i] = 0;
        dv[i] = v[i] = 0;
    }
    for (int t = 1; t <= 100; t++) {
        s.step = (uint64_t)t;
        for (int i = 0; i < N; i++) {
            double g = grad[i] = uniform(&seed) + 0.3f * p[i];
            dp[i] -= 1e-3 * 0.01 * dp[i];
            dm[i] = 0.9 * dm[i] + 0.1 * g;
            dv[i] = 0.999 * dv[i] + 0.001 * g * g;
            dp[i] -=
                1e-3 * (dm[i] / (1 - pow(0.9, t))) / (sqrt(dv[i] / (1 - pow(0.999, t))) + 1e-8);
        }
        run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_ADAMW, &a);
    }
    for (int i = 0; i < N; i++) {
        error += (p[i] - dp[i]) * (p[i] - dp[i]);
        size += dp[i] * dp[i];
    }
    error = sqrt(error / size);
    if (!ok(error <= 2e-6, "100 steps of adamw stay at the fp64 result"))
        diag("relative error %g, seed %" PRIu64, error, SEED);
}

static void skipped(void)
{
    struct zero_scalars s = {.factor = 0, .skip = 1, .step = 5};
    struct zero_update_args a = {
        .p = p,
        .m = m,
        .v = v,
        .grad = grad,
        .out = out,
        .count = ROOM - 1,
        .grad_dtype = ZERO_BF16,
        .out_dtype = ZERO_BF16,
        .scalars = &s,
        .hyper = {.lr = 1, .weight_decay = 1, .beta1 = 0.9f, .beta2 = 0.9f, .momentum = 0.9f},
    };
    static float out_before[ROOM];
    uint64_t seed = SEED;

    for (uint32_t kernel = ZERO_KERNEL_ADAMW; kernel <= ZERO_KERNEL_SGD; kernel++) {
        randomise(&seed, ZERO_BF16, true);
        memcpy(out_before, out, sizeof out);
        a.v = kernel == ZERO_KERNEL_ADAMW ? v : NULL;
        run_kernel(ZERO__ISA_AUTO, kernel, &a);
        ok(memcmp(p, want_p, sizeof p) == 0 && memcmp(m, want_m, sizeof m) == 0 &&
               memcmp(v, want_v, sizeof v) == 0 && memcmp(out, out_before, sizeof out) == 0,
           "%s: a skipped step leaves every bit", zero__launch_name(kernel));
    }
}

int main(void)
{
    for (unsigned i = 0; i < N_ISAS; i++)
        if (zero__loops(all_isas[i])) {
            variants(all_isas[i]);
            streamed(all_isas[i]);
        } else {
            skip("variants", "instruction set missing on this CPU");
        }
    against_fp64();
    skipped();
    done();
}
