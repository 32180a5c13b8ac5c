/* SPDX-License-Identifier: Apache-2.0 */
/* TOTAL, and SCALARS: the norm, clipping, skipping, and how the loss scale moves. */
#include "kernel.h"

static struct zero_scalars s;
static double sums[3];
static struct zero_scalars_args args = {.scalars = &s, .sums = sums, .ranks = 3, .inverse = 1};

static void step(double a, double b, double c)
{
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_SCALARS, &args);
}

/* x, whose sum depends on the order. */
static double uneven(uint64_t i)
{
    return (i * 2654435761u % 1000 < 3 ? 1e16 : 1.0) * (double)(1 + i % 7);
}

static void lanes(void)
{
    static const uint64_t counts[] = {0, 1, 255, 256, 257, 700, 3 * 256, 100003};
    static double x[100003];
    bool same = true, differs = false;

    for (uint64_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = uneven(i);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        double got = -1, want = 0, straight = 0;
        const struct zero_total_args total = {&got, x, counts[c]};
        for (uint64_t k = 0; k < ZERO_TOTAL_LANES; k++) {
            double lane = 0;
            for (uint64_t i = k; i < counts[c]; i += ZERO_TOTAL_LANES)
                lane += x[i];
            want += lane;
        }
        for (uint64_t i = 0; i < counts[c]; i++)
            straight += x[i];
        run_kernel(ZERO__ISA_AUTO, ZERO_KERNEL_TOTAL, &total);
        same = same && got == want && (counts[c] > ZERO_TOTAL_LANES || got == straight);
        differs = differs || want != straight;
    }
    ok(same && differs, "a total is that of its lanes, in order");
}

static void norm_and_clip(void)
{
    s = (struct zero_scalars){.loss_scale = 1};
    step(1, 2, 6);
    ok(s.grad_norm == 3 && s.factor == 1 && !s.skip, "without clipping the factor is 1");
    is_int(s.step, 1, "the first step");
    sums[0] = 1e16;
    step(1e16, 1, 1);
    ok(s.grad_norm == sqrt((1e16 + 1) + 1), "sums are added in rank order");

    args.inverse = 0.25f;
    s.loss_scale = 8;
    step(64, 0, 0);
    ok(s.grad_norm == 8 * 0.25 / 8, "the norm is of the average, unscaled");
    ok(s.factor == 0.25f / 8, "and so are the gradients");
    args.clip = 0.5f;
    step(64, 0, 0);
    ok(s.factor == 0.25f / 8, "a norm under the limit is not clipped");
    args.clip = 0.125f;
    step(64, 0, 0);
    ok(s.factor == (float)(0.25 / 8 * (0.125 / (0.25 + 1e-6))), "one above it is scaled down");
    step(0, 0, 0);
    ok(s.grad_norm == 0 && s.factor == 0.25f / 8 && !s.skip, "a zero gradient is no trouble");
    is_int(s.step, 6, "every one of them counted");
    args.clip = 0;
    args.ranks = 0;
    step(NAN, 64, 64);
    ok(s.grad_norm == 0 && s.factor == 0.25f / 8 && !s.skip && s.step == 7,
       "with no sums the step counts, and nothing is clipped or skipped");
    args.ranks = 3;
    args.inverse = 1;
}

static void overflow(void)
{
    s = (struct zero_scalars){.loss_scale = 2, .step = 10, .good = 4, .n_skipped = 1};
    step(1, INFINITY, 1);
    ok(s.skip == 1 && s.step == 10, "an infinite gradient of one rank skips the step");
    ok(s.n_skipped == 2 && s.good == 0 && s.loss_scale == 2, "a fixed scale stays");
    step(1, NAN, 1);
    ok(s.skip == 1 && s.n_skipped == 3, "so does a NaN");
    step(1, 1, 1e77);
    ok(s.skip == 0 && s.step == 11, "large finite ones do not");
}

static void dynamic_scale(void)
{
    args.growth = 2;
    args.backoff = 0.5f;
    args.min_scale = 1;
    args.max_scale = 8;
    args.window = 3;
    s = (struct zero_scalars){.loss_scale = 4};
    step(1, 1, INFINITY);
    ok(s.loss_scale == 2 && s.skip, "overflow halves the scale");
    step(1, 1, INFINITY);
    step(1, 1, INFINITY);
    ok(s.loss_scale == 1, "down to the floor");
    step(1, 1, 1);
    step(1, 1, 1);
    ok(s.loss_scale == 1 && s.good == 2, "good steps are counted");
    step(1, 1, 1);
    ok(s.loss_scale == 2 && s.good == 0, "a window of them doubles it");
    ok(s.factor == 1, "for the next step, not for this one");
    step(1, 1, 1);
    step(1, 1, 1);
    step(1, INFINITY, 1);
    ok(s.loss_scale == 1 && s.good == 0, "overflow starts the count again");
    for (int i = 0; i < 30; i++)
        step(1, 1, 1);
    ok(s.loss_scale == 8, "it grows to the ceiling");
}

int main(void)
{
    lanes();
    norm_and_clip();
    overflow();
    dynamic_scale();
    done();
}
