/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks must have in common is compared before a program runs: the program itself, what was
 * registered, and the options that shape training. The first difference from rank 0 is an error
 * that names it on all ranks. What may change later, the hyperparameters of groups and orders that
 * a step takes without saying so, travels with every norm as the epoch of its collective
 * (zero__norm_epoch()): a new order is compiled together, so a rank that alone has one would wait.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "engine/runtime.h"

struct contract {
    uint64_t program, parameters, groups, optimizer;
    uint32_t device_mem, reserved; /* enum zero_mem */
    char device[32];
    struct {
        double real;     /* of numbers */
        int64_t integer; /* of choices, too */
        uint64_t hash;   /* of what is neither */
        char text[32];   /* its beginning */
    } options[ZERO__N_OPTIONS]; /* 0 where ranks may differ */
};

/* The groups of options that shape training. */
static int is_shared(const struct zero__options *options, uint32_t id)
{
    struct zero__option_row row;

    return zero__options_row(options, id, &row) == 0 &&
           (!strcmp(row.group, "Sharding") || !strcmp(row.group, "Optimizer") ||
            !strcmp(row.group, "Offload"));
}

static uint64_t text_hash(const char *text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text, strlen(text), seed);
}

static uint64_t parameters_hash(const struct zero__model *m)
{
    uint64_t h = m->n_params;

    for (uint32_t i = 0; i < m->n_params; i++) {
        const struct zero__param *p = &m->params[i];
        uint64_t x[8 + ZERO_MAX_DIMS] = {p->dtype, p->unit, p->group, p->flags, p->init.kind,
                                         p->init.seed, zero_bits_of_float(p->init.a),
                                         zero_bits_of_float(p->init.b)};
        memcpy(x + 8, p->dims, p->n_dims * sizeof *p->dims);
        h = XXH3_64bits_withSeed(x, sizeof x, text_hash(p->name, h));
    }
    for (uint32_t u = 0; u < m->n_units; u++)
        h = text_hash(m->units[u].name, h);
    return h;
}

static uint64_t groups_hash(const struct zero__model *m)
{
    uint64_t h = m->n_groups;

    for (uint32_t g = 0; g < m->n_groups; g++) {
        const struct zero_hyper *y = &m->groups[g].hyper;
        float x[] = {y->lr,       y->weight_decay, y->beta1, y->beta2, y->eps,
                     y->momentum, y->dampening,    (float)y->flags};
        h = XXH3_64bits_withSeed(x, sizeof x, text_hash(m->groups[g].name, h));
    }
    return h;
}

uint64_t zero__orders_hash(const struct zero_runtime *rt)
{
    uint64_t h = 0;

    for (uint32_t k = 0; k < 2; k++) {
        const struct zero__order *o = &rt->model.orders[k];
        if (rt->next_order[k])
            h = XXH3_64bits_withSeed(o->uses, o->n * sizeof *o->uses, h + 1 + k);
    }
    return h;
}

uint32_t zero__norm_epoch(const struct zero_runtime *rt)
{
    uint64_t h = groups_hash(&rt->model) ^ zero__orders_hash(rt);
    return (uint32_t)(h ^ h >> 32);
}

static void options_fill(const struct zero_runtime *rt, struct contract *c)
{
    for (uint32_t i = 0; i < ZERO__N_OPTIONS; i++) {
        enum zero__option_id id = (enum zero__option_id)i;
        if (!is_shared(rt->options, i))
            continue;
        c->options[i].real = zero__option_real(rt->options, id);
        c->options[i].integer = zero__option_int(rt->options, id);
        if (id == ZERO__OPT_OFFLOAD) /* no number: the text counts */
            c->options[i].hash = text_hash(zero__option_text(rt->options, id), 0);
        strncpy(c->options[i].text, zero__option_text(rt->options, id),
                sizeof c->options[i].text - 1);
    }
}

uint64_t zero__options_hash(const struct zero_runtime *rt)
{
    struct contract c = {0};
    uint64_t h = 0;

    options_fill(rt, &c);
    for (uint32_t i = 0; i < ZERO__N_OPTIONS; i++) { /* but for the text: values have several */
        h = XXH3_64bits_withSeed(&c.options[i].real, sizeof c.options[i].real, h);
        h = XXH3_64bits_withSeed(&c.options[i].integer, sizeof c.options[i].integer, h);
        h = XXH3_64bits_withSeed(&c.options[i].hash, sizeof c.options[i].hash, h);
    }
    return h;
}

static void contract_fill(const struct zero_runtime *rt, struct contract *c)
{
    memset(c, 0, sizeof *c);
    c->program = rt->programs[0]->hash;
    c->parameters = parameters_hash(&rt->model);
    c->groups = groups_hash(&rt->model);
    c->optimizer = rt->optimizer;
    c->device_mem = rt->device_mem;
    snprintf(c->device, sizeof c->device, "%.31s", rt->device_name);
    options_fill(rt, c);
}

/* How rank i differs from rank 0, if it does. The most telling difference first. */
static int compare(const struct zero_runtime *rt, const struct contract *a,
                   const struct contract *b, int i)
{
    for (uint32_t k = 0; k < ZERO__N_OPTIONS; k++) {
        struct zero__option_row row;
        if (a->options[k].real == b->options[k].real &&
            a->options[k].integer == b->options[k].integer &&
            a->options[k].hash == b->options[k].hash)
            continue;
        int err = zero__options_row(rt->options, k, &row);
        return err ? err
                   : zero__fail(-EPROTO, "option %s is %s on rank %d and %s on rank 0: all ranks "
                                "must train with the same", row.name, b->options[k].text, i,
                                a->options[k].text);
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
        return zero__fail(-EPROTO, "rank %d registered other parameters than rank 0: units, names, "
                          "types, shapes, groups, flags and initial values (with their seeds) must "
                          "be the same on all ranks", i);
    if (a->groups != b->groups)
        return zero__fail(-EPROTO, "rank %d registered other parameter groups than rank 0: names "
                          "and hyperparameters must be the same on all ranks", i);
    if (a->program != b->program)
        return zero__fail(-EPROTO, "rank %d compiled another step than rank 0 (%016" PRIx64
                          ", %016" PRIx64 "): orders and declared buffers must be the same on all "
                          "ranks", i, b->program, a->program);
    return 0;
}

int zero__ranks_agree(struct zero_runtime *rt)
{
    struct contract mine, *all;
    int err;

    contract_fill(rt, &mine);
    all = zero__ranks_ask(rt, &mine, sizeof mine, &err);
    for (int i = 1; i < rt->ranks && !err; i++) {
        err = compare(rt, &all[0], &all[i], i);
        if (err) /* nobody's fault more than another's */
            zero__job_fail(rt->job, -1, err, "", zero__error_text());
    }
    free(all);
    return err;
}
