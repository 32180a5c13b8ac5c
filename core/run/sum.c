/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a few numbers over the ranks, by the control channel. */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

int zero__sums_create(struct zero__runner *run)
{
    run->sums = malloc((size_t)run->site->ranks * ZERO__SUM_MOST * sizeof *run->sums);
    return run->sums ? 0
                     : zero__fail(-ENOMEM, "no memory for the sums of %d ranks", run->site->ranks);
}

int zero__sum(struct zero__runner *run, const char *call, double *values, uint32_t n)
{
    int err = zero__run_error(run);

    if (err)
        return err;
    if (n > ZERO__SUM_MOST)
        return zero__fail(-EINVAL, "zero_sum() takes at most %u numbers, not %u", ZERO__SUM_MOST,
                          n);
    run->flight.control = call;
    run->flight.control_ns = zero__now_ns();
    run->flight.n_control++;
    err = zero__job_allgather(run->site->job, values, n * (uint32_t)sizeof *values, run->sums);
    if (err) /* the job's, of which this call may have learnt first */
        return zero__run_fail(run, -1, err, "", zero__error_text());
    run->flight.control = NULL;
    for (uint32_t i = 0; i < n; i++) {
        values[i] = run->sums[i];
        for (int r = 1; r < run->site->ranks; r++)
            values[i] += run->sums[(size_t)r * n + i];
    }
    return 0;
}
