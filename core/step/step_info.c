/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a step. */
#include <math.h>

#include "machine/clock.h"
#include "step/state.h"

/* Early updates do not wait for the norm, so this report computes it. */
static int norm_of(struct zero__step *step, const struct zero_scalars *s, double *norm)
{
    double *sums = step->norms, total = 0;
    int err = 0;

    *norm = s->grad_norm;
    if (!step->site->recipe.early)
        return 0;
    err = zero__device_read(step->run, sums,
                            zero__home_address(step->site, step->site->states.sums, 0),
                            (uint64_t)step->site->ranks * sizeof *sums);
    for (int i = 0; i < step->site->ranks && !err; i++)
        total += sums[i];
    *norm = sqrt(total) * ((double)(1.0f / (float)step->now.micro) / (double)s->loss_scale);
    return err;
}

int zero__step_info(struct zero__step *step, int64_t began, struct zero_step_info *info)
{
    const struct zero__work w = zero__times_work(step->run);
    const struct zero_scalars s = zero__reach_scalars(step->run);
    double norm;
    int err = norm_of(step, &s, &norm);

    if (err)
        return err;
    *info =
        (struct zero_step_info){.grad_norm = norm,
                                .skipped = s.skip,
                                .loss_scale = s.loss_scale,
                                .step = s.step,
                                .exposed_ns = step->exposed_ns,
                                .update_ns = (uint64_t)(zero__now_ns() - began),
                                .wire_bytes = zero__wire_bytes(step->run) - step->wire_bytes_seen,
                                .disk_read_bytes = w.disk.read,
                                .disk_written_bytes = w.disk.written};
    return 0;
}
