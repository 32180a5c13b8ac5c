/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZERO_KERNEL_SCALARS: one decision per step, made from the same numbers in the same order on every
 * rank, so that clipping, skipping and the loss scale agree everywhere without another message.
 */
#include <math.h>

#include "device/kernels.h"

static float scale_after_overflow(const struct zero_scalars_args *a, float scale)
{
    if (a->growth == 0)
        return scale;
    scale *= a->backoff;
    return scale < a->min_scale ? a->min_scale : scale;
}

static float scale_after_growth(const struct zero_scalars_args *a, float scale)
{
    scale *= a->growth;
    return scale > a->max_scale ? a->max_scale : scale;
}

void zero__kernel_scalars(const struct zero_scalars_args *a)
{
    struct zero_scalars *s = a->scalars;
    double total = 0, average = (double)a->inverse / (double)s->loss_scale;

    for (uint32_t r = 0; r < a->ranks; r++)
        total += a->sums[r];
    s->grad_norm = sqrt(total) * average;
    /* Squares of finite fp32 values cannot overflow fp64: this tells of every inf and NaN. */
    if (!isfinite(total)) {
        s->skip = 1;
        s->factor = 0;
        s->n_skipped++;
        s->good = 0;
        s->loss_scale = scale_after_overflow(a, s->loss_scale);
        return;
    }

    double ratio = a->clip > 0 ? (double)a->clip / (s->grad_norm + 1e-6) : 1;
    s->skip = 0;
    s->factor = (float)(average * (ratio < 1 ? ratio : 1));
    s->step++;
    if (s->good < UINT32_MAX)
        s->good++;
    if (a->growth != 0 && s->good >= a->window) {
        s->loss_scale = scale_after_growth(a, s->loss_scale);
        s->good = 0;
    }
}
