/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a step: gradients without contributions, and the update body. */
#include <errno.h>
#include <string.h>

#include "base/status.h"
#include "machine/clock.h"
#include "step/state.h"

/*
 * Gradients that no use contributed to are zero; what the last micro-batch did not add to is still
 * as the others left it.
 */
static int missing_make(struct zero__step *step)
{
    int err = 0;

    for (uint32_t u = 0; u < step->site->model.n_units && !err; u++)
        if (zero__unit_trains(&step->site->model, u) && step->now.contributed[u] != ZERO__ALL)
            err = step->now.contributed[u] == ZERO__SOME ||
                          zero__unit_is_early(&step->site->model, &step->site->states, u)
                      ? zero__deviate_finish(step, u)
                      : zero__gradients_zero(step->run, u);
    return err;
}

static int update_body(struct zero__step *step)
{
    int err = zero__history_compare(step->run, &step->now, zero__orders_hash(step));

    if (!err)
        err = missing_make(step);
    if (!err) {
        zero__body_open(step, ZERO__UPDATE_BODY);
        err = zero__step_advance(step);
    }
    if (!err)
        err = zero__body_settle(step, NULL);
    return zero__run_fail_alone(step->run, err, "update");
}

int zero__step_update(struct zero__step *step, struct zero_step_info *info)
{
    int64_t began = zero__now_ns();
    int err =
        zero__step_phase(step, ZERO__IN(IDLE) | ZERO__IN(MICRO) | ZERO__IN(EVAL), "zero_update()");

    if (!err)
        err = zero__step_not_held(step);
    if (err)
        return err;
    if (!step->now.ended)
        return zero__fail(
            -EINVAL,
            "zero_update() after %u micro-batches of at most %u (ZERO_ACCUM), none "
            "of them the last: call zero_begin() with last_micro 1 for one more first",
            step->now.micro, step->site->recipe.accum);
    zero__times_come(step->run, &step->now, NULL);
    uint64_t exposed = step->exposed_ns;
    err = zero__step_close(step);
    began += (int64_t)(step->exposed_ns - exposed); /* the last reductions: counted once */
    if (!err)
        err = update_body(step);
    if (err)
        return err;
    zero__times_keep(step->run);
    err = zero__step_info(step, began, &step->last_info);
    step->now.micro = 0;
    step->now.ended = 0;
    memset(step->now.contributed, 0, step->site->model.n_units);
    if (err)
        return zero__run_fail(step->run, step->site->rank, err, "update", zero__error_text());
    if (info)
        *info = step->last_info;
    return 0;
}
