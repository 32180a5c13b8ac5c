/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime's beginning: options, ranks, plugins. */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "base/status.h"
#include "device/host.h"
#include "engine/runtime.h"
#include "run/inside.h"

/* Options that the site keeps as values. */
static void options_read(struct zero_runtime *rt, const struct zero_config *cfg)
{
    rt->site.log.sink = cfg ? cfg->log : NULL;
    rt->site.log.sink_arg = cfg ? cfg->log_arg : NULL;
    rt->site.log.gate = &zero__runner_inside(rt->run)->gate;
    rt->site.log.rank = -1;
    zero__option_levels(rt->site.options, &rt->site.log);
    rt->site.timeout_ns = zero__option_ns(rt->site.options, ZERO__OPT_TIMEOUT);
    zero__option_limit(rt->site.options, &rt->site.limit);
}

static int job_open(struct zero_runtime *rt, const struct zero_config *cfg)
{
    struct zero__job_params p;
    int err = zero__job_params_from(cfg, rt->site.options, &p);

    if (err)
        return err;
    p.log = &rt->site.log;
    rt->site.rank = p.rank;
    rt->site.ranks = p.ranks;
    zero__crash_begin(rt->run, &p);
    err = zero__job_open(&p, &rt->site.job);
    zero__crash_number(rt->run, p.number);
    if (err)
        return err;
    rt->site.local_ranks = p.local_ranks > 0 ? p.local_ranks : 1;
    if (rt->site.ranks > 1)
        rt->site.log.rank = rt->site.rank;
    return zero__sums_create(rt->run);
}

/* The device is open: the transport may work in its streams. */
static int comm_open(struct zero_runtime *rt)
{
    int err = zero__transport_open(rt);

    if (err)
        return err;
    /* From here on ranks wait for each other in the transport: a death must end that. */
    zero__job_on_error(rt->site.job, zero__run_job_failed, rt->run);
    zero__job_on_lost(rt->site.job, zero__flight_say, rt->run);
    zero__doubt_begin(rt->run);
    return zero__lanes_connect(rt->run);
}

static int group_default(struct zero_runtime *rt)
{
    const struct zero__options *o = rt->site.options;
    uint32_t id;
    struct zero_group_desc d = {.size = sizeof d,
                                .name = "default",
                                .lr = (float)zero__option_real(o, ZERO__OPT_LR),
                                .weight_decay = (float)zero__option_real(o, ZERO__OPT_WEIGHT_DECAY),
                                .beta1 = (float)zero__option_real(o, ZERO__OPT_BETA1),
                                .beta2 = (float)zero__option_real(o, ZERO__OPT_BETA2),
                                .eps = (float)zero__option_real(o, ZERO__OPT_EPS),
                                .momentum = (float)zero__option_real(o, ZERO__OPT_MOMENTUM)};

    rt->site.optimizer = (uint32_t)zero__option_int(o, ZERO__OPT_OPTIMIZER);
    return zero__model_add_group(&rt->site.model, &d, &id);
}

/* May a plugin still ask for that option? After a failure also what is loaded. */
struct questions {
    const struct zero__loader *loader;
    bool all_asked;
};

static bool may_ask(void *arg, const char *option)
{
    const struct questions *q = arg;

    return zero__loader_may_ask(q->loader, option, q->all_asked);
}

/* A runtime whose rooms are empty. */
static int rooms_create(struct zero_runtime **out)
{
    struct zero_runtime *rt = calloc(1, sizeof *rt);

    if (!rt)
        return zero__fail(-ENOMEM, "no memory for a runtime");
    int err = zero__runner_create(&rt->site, &rt->run);
    if (!err)
        err = zero__placer_create(&rt->site, rt->run, &rt->placer);
    if (!err)
        err = zero__step_create(&rt->site, rt->run, &rt->site.model, &rt->step);
    if (!err) {
        *out = rt;
        return 0;
    }
    zero__placer_free(rt->placer);
    if (rt->run) {
        free(zero__runner_inside(rt->run));
        zero__runner_end(rt->run);
        zero__runner_free(rt->run);
    }
    free(rt);
    return err;
}

int zero_create(const struct zero_config *config, struct zero_runtime **out)
{
    static const struct zero_plugin *const builtins[] = {&zero__host_device_plugin};
    struct zero_runtime *rt = NULL;
    char said[ZERO_ERROR_BYTES];
    int err = config ? zero__input_check("zero_config", config, sizeof *config) : 0;

    if (!err)
        err = rooms_create(&rt);
    if (err)
        return err;
    err = zero__options_load(config ? config->settings : NULL, config ? config->n_settings : 0,
                             &rt->site.options);
    if (!err) {
        options_read(rt, config);
        err = job_open(rt, config);
    }
    if (!err)
        err = zero__crash_check(rt->run);
    if (!err)
        err = zero__loader_create(rt->site.options, &rt->site.log, builtins, 1, &rt->site.loader);
    if (!err)
        err = zero__device_open(rt);
    if (!err)
        err = comm_open(rt);
    if (!err)
        err = zero__streams_create(rt->run);
    if (!err)
        err = zero__tiers_load(rt->placer);
    if (!err)
        err = group_default(rt);
    if (rt->site.options && err != -EINVAL) {
        struct questions questions = {rt->site.loader, !err};
        const struct zero__option_others others = {may_ask, &questions};
        int warned = zero__options_finish(rt->site.options, &rt->site.log, !err,
                                          rt->site.loader ? &others : NULL);
        err = err ? err : warned;
    }
    if (err) {
        err = zero__run_cause(rt->run, err);
        snprintf(said, sizeof said, "%s", zero__error_text());
        zero__run_fail(rt->run, rt->site.rank, err, "zero_create", said);
        zero_destroy(rt);
        return zero__fail(err, "%s", said);
    }
    *out = rt;
    return 0;
}
