/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks must have in common is compared before a program runs: the program itself, what was
 * registered, and the options that shape training. The first difference from rank 0 is an error
 * that names it on all ranks. Hyperparameters of groups and orders that steps record may change
 * later: their hash travels with every norm, as the epoch of its collective (step/step.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shared_options.h"
#include "base/status.h"
#include "engine/runtime.h"

struct contract {
    uint64_t program, parameters, groups, optimizer;
    uint32_t device_mem, reserved; /* enum zero_mem */
    char device[32];
    struct zero__shared_option options[ZERO__N_OPTIONS];
};

static void contract_fill(const struct zero_runtime *rt, struct contract *c)
{
    memset(c, 0, sizeof *c);
    c->program = rt->site.programs[0]->hash;
    c->parameters = zero__parameters_hash(&rt->site.model);
    c->groups = zero__groups_hash(&rt->site.model);
    c->optimizer = rt->site.optimizer;
    c->device_mem = rt->site.device_mem;
    snprintf(c->device, sizeof c->device, "%.31s", rt->site.device_name);
    zero__shared_options(rt->site.options, c->options);
}

/* How rank i differs from rank 0, if it does. The most telling difference first. */
static int compare(const struct zero_runtime *rt, const struct contract *a,
                   const struct contract *b, int i)
{
    for (uint32_t k = 0; k < ZERO__N_OPTIONS; k++) {
        struct zero__option_row row;
        if (!zero__shared_option_differs(&a->options[k], &b->options[k]))
            continue;
        int err = zero__options_row(rt->site.options, k, &row);
        return err ? err
                   : zero__fail(-EPROTO,
                                "option %s is %s on rank %d and %s on rank 0: all ranks "
                                "must train with the same",
                                row.name, b->options[k].text, i, a->options[k].text);
    }
    if (a->device_mem != b->device_mem) /* collectives are cut in other ways */
        return zero__fail(-EPROTO,
                          "rank %d trains on %.31s and rank 0 on %.31s: all ranks must have "
                          "devices of one kind (ZERO_DEVICE)",
                          i, b->device, a->device);
    if (a->optimizer != b->optimizer)
        return zero__fail(-EPROTO,
                          "rank %d has another optimizer than rank 0: zero_set_optimizer() "
                          "must be called on all ranks or on none",
                          i);
    if (a->parameters != b->parameters)
        return zero__fail(-EPROTO,
                          "rank %d registered other parameters than rank 0: units, names, "
                          "types, shapes, groups, flags and initial values (with their seeds) must "
                          "be the same on all ranks",
                          i);
    if (a->groups != b->groups)
        return zero__fail(-EPROTO,
                          "rank %d registered other parameter groups than rank 0: names "
                          "and hyperparameters must be the same on all ranks",
                          i);
    if (a->program != b->program)
        return zero__fail(-EPROTO,
                          "rank %d compiled another step than rank 0 (%016" PRIx64 ", %016" PRIx64
                          "): orders and declared buffers must be the same on all "
                          "ranks",
                          i, b->program, a->program);
    return 0;
}

int zero__ranks_agree(struct zero_runtime *rt)
{
    struct contract mine, *all;
    int err;

    contract_fill(rt, &mine);
    all = zero__ranks_ask(&rt->site, &mine, sizeof mine, &err);
    for (int i = 1; i < rt->site.ranks && !err; i++) {
        err = compare(rt, &all[0], &all[i], i);
        if (err) /* nobody's fault more than another's */
            zero__job_fail(rt->site.job, -1, err, "", zero__error_text());
    }
    free(all);
    return err;
}
