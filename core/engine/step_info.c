/* SPDX-License-Identifier: Apache-2.0 */
/* What the application hears of a step. */
#include <math.h>

#include "engine/runtime.h"
#include "machine/clock.h"

/* Where updates do not wait for the norm, nothing but this report needs it. */
static int norm_of(struct zero_runtime *rt, const struct zero_scalars *s, double *norm)
{
    double *sums = rt->sum_parts, total = 0;
    int err = 0;

    *norm = s->grad_norm;
    if (!rt->recipe.early)
        return 0;
    err = zero__device_read(rt, sums, zero__home_address(rt, rt->states.sums, 0),
                            (uint64_t)rt->ranks * sizeof *sums);
    for (int i = 0; i < rt->ranks && !err; i++)
        total += sums[i];
    *norm = sqrt(total) * ((double)(1.0f / (float)rt->recipe.accum) / (double)s->loss_scale);
    return err;
}

int zero__step_info(struct zero_runtime *rt, int64_t began, struct zero_step_info *info)
{
    const struct work *w = &rt->work;
    const struct zero_scalars s = zero__reach_scalars(rt);
    double norm;
    int err = norm_of(rt, &s, &norm);

    if (err)
        return err;
    *info = (struct zero_step_info){.grad_norm = norm,
                                    .skipped = s.skip,
                                    .loss_scale = s.loss_scale,
                                    .step = s.step,
                                    .exposed_ns = rt->exposed_ns,
                                    .update_ns = (uint64_t)(zero__now_ns() - began),
                                    .wire_bytes = zero__wire_bytes(rt) - rt->wire_bytes_seen,
                                    .disk_read_bytes = w->disk.read,
                                    .disk_written_bytes = w->disk.written};
    return 0;
}
