/* SPDX-License-Identifier: Apache-2.0 */
/* Commit: layout, program, memory, initial values. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "machine/clock.h"

static int arrays_make(struct zero_runtime *rt)
{
    int err = zero__runner_equip(rt->run);

    return err ? err : zero__step_equip(rt->step);
}

static int scalars_init(struct zero_runtime *rt)
{
    struct zero_scalars s = {.factor = 1, .loss_scale = 1};
    double fixed = zero__option_real(rt->site.options, ZERO__OPT_LOSS_SCALE);

    if (fixed > 0)
        s.loss_scale = (float)fixed;
    else if (rt->site.model.train_dtype == ZERO_F16)
        s.loss_scale = (float)zero__option_real(rt->site.options, ZERO__OPT_LOSS_SCALE_INIT);
    zero__step_ready(rt->step, s.loss_scale);
    return zero__device_write(rt->run, zero__home_address(&rt->site, rt->site.states.scalars, 0),
                              &s, sizeof s);
}

/* The collectives of an op, one for each segment of its unit, are posted together. */
static int transport_check(const struct zero_runtime *rt)
{
    const struct zero__model *m = &rt->site.model;

    if (m->train_dtype && !(rt->site.caps.dtypes & 1u << m->train_dtype))
        return zero__fail(-ENOTSUP,
                          "comm plugin %s does not sum %s, the type of the trainable "
                          "parameters: choose another with ZERO_COMM",
                          rt->site.comm_name, zero_dtype_name(m->train_dtype));
    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->units[u].n_segments > rt->site.caps.max_inflight)
            return zero__fail(-ENOTSUP,
                              "comm plugin %s takes %u collectives at once, and unit %s "
                              "has %u, one for each type and kind of its parameters: choose "
                              "another with ZERO_COMM, or divide the unit",
                              rt->site.comm_name, rt->site.caps.max_inflight, m->units[u].name,
                              m->units[u].n_segments);
    return 0;
}

static int layout_make(struct zero_runtime *rt)
{
    struct zero__layout_params layout = {
        (uint32_t)rt->site.ranks, zero__option_bytes(rt->site.options, ZERO__OPT_PERSISTENT_BYTES),
        zero__option_bytes(rt->site.options, ZERO__OPT_PERSISTENT_CAP_BYTES)};
    int err;

    zero__recipe_make(rt);
    if (rt->site.recipe.accum > 1 && !rt->site.recipe.boundary &&
        !(rt->site.caps.flags & ZERO_COMM_ACCUMULATE))
        return zero__fail(-ENOTSUP,
                          "comm plugin %s cannot add into accumulators, which reducing "
                          "every micro-batch needs: set ZERO_REDUCE_AT=boundary",
                          rt->site.comm_name);
    err = zero__model_default_order(&rt->site.model, ZERO_TRAIN);
    if (!err)
        err = zero__model_default_order(&rt->site.model, ZERO_EVAL);
    if (!err)
        err = zero__layout_build(&rt->site.model, &layout);
    if (!err)
        err = transport_check(rt);
    if (!err)
        zero__map_decide(rt);
    return err;
}

static int places_find(struct zero_runtime *rt)
{
    int err = zero__spread(rt->placer);

    if (!err)
        err = zero__states_build(&rt->site.model, &rt->site.recipe, &rt->site.states);
    if (!err)
        err = zero__early_check(rt);
    if (!err)
        zero__spread_tell(rt->placer);
    return err;
}

/*
 * A model that lacks parameters on all ranks is refused, and they may add them. Where some ranks
 * have all, the models differ: who lacks something ends the job, and the others hear of that where
 * they wait for it next.
 */
static int model_check(struct zero_runtime *rt, int *refused)
{
    const char lacks = zero__model_complete(&rt->site.model) != 0;
    int err, n = 0;
    char *all = zero__ranks_ask(&rt->site, &lacks, sizeof lacks, &err);

    for (int r = 0; r < rt->site.ranks && all; r++)
        n += all[r];
    free(all);
    *refused = !err && n == rt->site.ranks;
    if (err || !lacks)
        return err;
    err = zero__model_complete(&rt->site.model);
    return *refused ? err
                    : zero__while(err,
                                  "the model is incomplete on %d of %d ranks, which ends the "
                                  "job",
                                  n, rt->site.ranks);
}

static double since(int64_t *ns)
{
    const int64_t before = *ns;

    *ns = zero__now_ns();
    return (double)(*ns - before) / 1e9;
}

int zero_commit(struct zero_runtime *rt)
{
    int err = zero__run_error(rt->run), refused = 0;
    int64_t at = zero__now_ns();

    if (!err && !zero__step_is_setup(rt->step))
        err = zero__fail(-EINVAL, "zero_commit(): the model is committed already: leave this call "
                                  "out");
    if (err)
        return err;
    err = model_check(rt, &refused);
    if (refused)
        return err;
    if (!err)
        err = layout_make(rt);
    if (!err)
        err = places_find(rt);
    const double places_s = since(&at);
    if (!err)
        err = zero__callback_create(rt->run);
    if (!err)
        err = zero__program_install(rt);
    const double program_s = since(&at);
    if (!err)
        zero__spare_tell(rt->placer);
    if (!err)
        err = zero__memory_reserve(rt->placer);
    if (!err)
        err = arrays_make(rt);
    if (!err)
        err = zero__memory_map(rt->placer);
    if (!err)
        err = zero__progress_start(rt->run);
    if (!err)
        err = zero__storage_start(rt->run);
    if (err)
        goto out;
    const double memory_s = since(&at);
    err = scalars_init(rt);
    if (!err)
        err = zero__values_init(rt);
out:
    if (err) {
        err = zero__run_cause(rt->run, err);
        zero__run_fail(rt->run, rt->site.rank, err, "zero_commit", zero__error_text());
        zero__crash_report(rt->run);
        return err;
    }
    zero__step_commit(rt->step);
    zero__log(&rt->site.log, ZERO_LOG_INFO, "engine",
              "ready after %.3g s of finding places, %.3g of making the program and its plan, %.3g "
              "of reserving memory, %.3g of first values",
              places_s, program_s, memory_s, since(&at));
    return 0;
}
