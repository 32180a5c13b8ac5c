/* SPDX-License-Identifier: Apache-2.0 */
/* Registration through the public API, and commit: layout, program, memory, initial values. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/input.h"
#include "base/status.h"
#include "engine/callback.h"
#include "engine/places.h"
#include "engine/runtime.h"
#include "machine/clock.h"

/* Pieces of mapped memory that a rank may need: the kernel's usual limit for a process is 65,530 */
#define MOST_MAPS 32768u

int zero_unit_add(struct zero_runtime *rt, const char *name, uint32_t *unit)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP), "zero_unit_add()");
    return err ? err : zero__model_add_unit(&rt->model, name, unit);
}

int zero_group_add(struct zero_runtime *rt, const struct zero_group_desc *desc, uint32_t *group)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP), "zero_group_add()");
    if (!err)
        err = zero__input_check("zero_group_desc", desc, sizeof *desc);
    if (!err && (rt->optimizer == ZERO__ADAMW || rt->optimizer == ZERO__ADAM) && desc->eps == 0)
        err = zero__fail(-EINVAL, "group %s: eps 0 must be positive: Adam divides by it",
                         desc->name);
    return err ? err : zero__model_add_group(&rt->model, desc, group);
}

int zero_param_add(struct zero_runtime *rt, uint32_t unit, const struct zero_param_desc *desc,
                   uint32_t *param)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP), "zero_param_add()");
    if (!err)
        err = zero__input_check("zero_param_desc", desc, sizeof *desc);
    return err ? err : zero__model_add_param(&rt->model, unit, desc, param);
}

int zero_buffer_add(struct zero_runtime *rt, const struct zero_buffer_desc *desc, uint32_t *buffer)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP), "zero_buffer_add()");
    if (!err)
        err = zero__input_check("zero_buffer_desc", desc, sizeof *desc);
    return err ? err : zero__model_add_buffer(&rt->model, desc, buffer);
}

/* Why shards are not mapped; NULL: they are. The recipe says where they can be. */
static const char *map_obstacle(const struct zero_runtime *rt)
{
    uint64_t n = 0;

    if (rt->recipe.map_bytes > ZERO_BUFFER_ALIGN) /* homes start at multiples of that */
        return "the pages of this machine are too large";
    if (!zero__device_is_host(rt))
        return "the device's memory is its own";
    if (!(rt->caps.flags & ZERO_COMM_MAP) || !rt->comm_ops.alloc || !rt->comm_ops.map)
        return "the comm plugin cannot map";
    /*
     * A product reads a peer's rows from the other node whenever they have left its caches, a copy
     * once. All ranks know of each other's nodes, and decide alike.
     */
    if (zero__option_int(rt->options, ZERO__OPT_MAP) == ZERO__MAP_AUTO &&
        __builtin_popcount(rt->memory_nodes) > 1)
        return "ranks may run on several memory nodes; 1 maps all the same";
    for (uint32_t i = 0; i < rt->model.n_segments; i++)
        n += zero__recipe_maps(&rt->recipe, &rt->model.segments[i]);
    if (!n)
        return "no shard is whole pages";
    return n * (uint64_t)rt->ranks > MOST_MAPS ? "there are too many segments and ranks" : NULL;
}

/*
 * With the layout known: whether shards are mapped at all. Who asked for it hears why not, from one
 * rank, as all decide alike.
 */
static void map_decide(struct zero_runtime *rt)
{
    struct zero__recipe *r = &rt->recipe;
    const char *obstacle;

    if (r->stage < 3 || r->ranks < 2 || !r->map_bytes || !(obstacle = map_obstacle(rt)))
        return;
    bool asked = !rt->rank && zero__option_int(rt->options, ZERO__OPT_MAP) == ZERO__MAP_ALWAYS;
    r->map_bytes = 0;
    zero__log(&rt->log, asked ? ZERO_LOG_WARN : ZERO_LOG_INFO, "engine",
              "parameters are gathered and not mapped (ZERO_MAP): %s", obstacle);
}

/* Tests: ZERO_TEST_TILES=N, so that the update of a small model uses a tile's place again. */
static uint32_t tiles_at_once(void)
{
    const char *text = secure_getenv("ZERO_TEST_TILES");
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;

    return n > 0 && n < ZERO__TILES ? (uint32_t)n : ZERO__TILES;
}

/* Which has been zeroed but for what zero__tiers_load() has placed; see zero__spread(), too. */
static void recipe_make(struct zero_runtime *rt)
{
    static const uint32_t moments[] = {[ZERO__ADAMW] = 2, [ZERO__ADAM] = 2, [ZERO__CALLBACK] = 2};
    const struct zero__options *o = rt->options;
    int64_t reduce_at = zero__option_int(o, ZERO__OPT_REDUCE_AT);
    struct zero__recipe *r = &rt->recipe;

    r->stage = (uint32_t)zero__option_int(o, ZERO__OPT_STAGE);
    r->ranks = (uint32_t)rt->ranks;
    r->rank = (uint32_t)rt->rank;
    r->accum = (uint32_t)zero__option_int(o, ZERO__OPT_ACCUM);
    r->bucket_bytes = zero__option_bytes(o, ZERO__OPT_BUCKET_BYTES);
    r->prefetch_bytes = zero__option_bytes(o, ZERO__OPT_PREFETCH_BYTES);
    r->retain_bytes = zero__option_int(o, ZERO__OPT_RETAIN_BYTES);
    if (zero__option_int(o, ZERO__OPT_MAP) != ZERO__MAP_NEVER)
        r->map_bytes = (uint64_t)sysconf(_SC_PAGESIZE); /* see map_decide() */
    r->tiles = tiles_at_once();
    r->tile = (uint32_t)(zero__option_bytes(o, ZERO__OPT_TILE_BYTES) / sizeof(float) /
                         ZERO_SUMSQ_BLOCK * ZERO_SUMSQ_BLOCK);
    r->boundary = reduce_at == ZERO__REDUCE_AUTO ? r->stage < 2
                                                 : reduce_at == ZERO__REDUCE_BOUNDARY;
    if (rt->optimizer == ZERO__SGD) {
        for (uint32_t i = 0; i < rt->model.n_groups; i++)
            if (rt->model.groups[i].hyper.momentum != 0)
                r->n_moments = 1;
    } else {
        r->n_moments = moments[rt->optimizer];
    }
    r->early = zero__option_int(o, ZERO__OPT_UPDATE_AT) == ZERO__UPDATE_BACKWARD;
    /* An application's own optimizer is given fp32. */
    r->halves = rt->optimizer != ZERO__CALLBACK;
    r->host_updates = rt->lanes[ZERO__Q_HOST].dev != NULL;
    r->state_dtype = zero__option_int(o, ZERO__OPT_STATE_DTYPE) ? ZERO_BF16 : ZERO_F32;
}

/*
 * With the states laid out: whether anything is updated beside the backward pass, which then knows
 * nothing of the other gradients.
 */
static int early_check(struct zero_runtime *rt)
{
    double clip = zero__option_real(rt->options, ZERO__OPT_CLIP);
    uint32_t n = 0;

    for (uint32_t u = 0; u < rt->model.n_units && rt->recipe.early; u++)
        n += (uint32_t)zero__unit_is_early(&rt->model, &rt->states, u);
    if (rt->recipe.early && !n)
        zero__log(&rt->log, ZERO_LOG_INFO, "engine",
                  "ZERO_UPDATE_AT=backward changes nothing: no optimizer states lie outside the "
                  "device");
    rt->recipe.early = n > 0;
    if (!n)
        return 0;
    if (clip > 0)
        return zero__fail(-EINVAL,
                          "ZERO_CLIP is %g and ZERO_UPDATE_AT backward: clipping needs the norm of "
                          "all gradients before the first update; set ZERO_CLIP=0 or "
                          "ZERO_UPDATE_AT=end", clip);
    if (rt->model.train_dtype == ZERO_F16 &&
        zero__option_real(rt->options, ZERO__OPT_LOSS_SCALE) == 0)
        return zero__fail(-EINVAL,
                          "ZERO_LOSS_SCALE is dynamic and ZERO_UPDATE_AT backward: a step that "
                          "overflows could not be skipped; set ZERO_LOSS_SCALE to a number, train "
                          "in bf16, or set ZERO_UPDATE_AT=end");
    if (rt->optimizer == ZERO__CALLBACK)
        return zero__fail(-EINVAL,
                          "ZERO_UPDATE_AT is backward, and an optimizer by callback is not called "
                          "beside the application: set ZERO_UPDATE_AT=end");
    return 0;
}

static int arrays_make(struct zero_runtime *rt)
{
    uint32_t units = rt->model.n_units + 1, segments = rt->model.n_segments + 1;

    rt->contributed = calloc(units, sizeof *rt->contributed);
    rt->param_now = calloc(segments, sizeof *rt->param_now);
    rt->grad_now = calloc(segments, sizeof *rt->grad_now);
    rt->scratch = malloc(rt->states.staging_bytes);
    rt->zero_count = calloc(segments, sizeof *rt->zero_count);
    rt->activations = calloc(rt->model.n_buffers + 1, sizeof *rt->activations);
    if (!rt->contributed || !rt->scratch || !rt->param_now || !rt->grad_now || !rt->zero_count ||
        !rt->activations)
        return zero__fail(-ENOMEM, "no memory for a model of %u units", rt->model.n_units);
    return zero__deviate_create(rt);
}

static int scalars_init(struct zero_runtime *rt)
{
    struct zero_scalars s = {.factor = 1, .loss_scale = 1};
    double fixed = zero__option_real(rt->options, ZERO__OPT_LOSS_SCALE);

    if (fixed > 0)
        s.loss_scale = (float)fixed;
    else if (rt->model.train_dtype == ZERO_F16)
        s.loss_scale = (float)zero__option_real(rt->options, ZERO__OPT_LOSS_SCALE_INIT);
    rt->last_info.loss_scale = s.loss_scale;
    return zero__device_write(rt, zero__home_address(rt, rt->states.scalars, 0), &s, sizeof s);
}

/* The collectives of an op, one for each segment of its unit, are posted together. */
static int transport_check(const struct zero_runtime *rt)
{
    const struct zero__model *m = &rt->model;

    if (m->train_dtype && !(rt->caps.dtypes & 1u << m->train_dtype))
        return zero__fail(-ENOTSUP, "comm plugin %s does not sum %s, the type of the trainable "
                          "parameters: choose another with ZERO_COMM", rt->comm_name,
                          zero_dtype_name(m->train_dtype));
    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->units[u].n_segments > rt->caps.max_inflight)
            return zero__fail(-ENOTSUP, "comm plugin %s takes %u collectives at once, and unit %s "
                              "has %u, one for each type and kind of its parameters: choose "
                              "another with ZERO_COMM, or divide the unit", rt->comm_name,
                              rt->caps.max_inflight, m->units[u].name, m->units[u].n_segments);
    return 0;
}

static int layout_make(struct zero_runtime *rt)
{
    struct zero__layout_params layout = {
        (uint32_t)rt->ranks, zero__option_bytes(rt->options, ZERO__OPT_PERSISTENT_BYTES),
        zero__option_bytes(rt->options, ZERO__OPT_PERSISTENT_CAP_BYTES)};
    int err;

    recipe_make(rt);
    if (rt->recipe.accum > 1 && !rt->recipe.boundary && !(rt->caps.flags & ZERO_COMM_ACCUMULATE))
        return zero__fail(-ENOTSUP, "comm plugin %s cannot add into accumulators, which reducing "
                          "every micro-batch needs: set ZERO_REDUCE_AT=boundary", rt->comm_name);
    err = zero__model_default_order(&rt->model, ZERO_TRAIN);
    if (!err)
        err = zero__model_default_order(&rt->model, ZERO_EVAL);
    if (!err)
        err = zero__layout_build(&rt->model, &layout);
    if (!err)
        err = transport_check(rt);
    if (!err)
        map_decide(rt);
    return err;
}

static int places_find(struct zero_runtime *rt)
{
    int err = zero__spread(rt);

    if (!err)
        err = zero__states_build(&rt->model, &rt->recipe, &rt->states);
    if (!err)
        err = early_check(rt);
    if (!err)
        zero__spread_tell(rt);
    return err;
}

/*
 * A model that lacks parameters on all ranks is refused, and they may add them. Where some ranks
 * have all, the models differ: who lacks something ends the job, and the others hear of that where
 * they wait for it next.
 */
static int model_check(struct zero_runtime *rt, int *refused)
{
    const char lacks = zero__model_complete(&rt->model) != 0;
    int err, n = 0;
    char *all = zero__ranks_ask(rt, &lacks, sizeof lacks, &err);

    for (int r = 0; r < rt->ranks && all; r++)
        n += all[r];
    free(all);
    *refused = !err && n == rt->ranks;
    if (err || !lacks)
        return err;
    err = zero__model_complete(&rt->model);
    return *refused ? err
                    : zero__while(err, "the model is incomplete on %d of %d ranks, which ends the "
                                  "job", n, rt->ranks);
}

static double since(int64_t *ns)
{
    const int64_t before = *ns;

    *ns = zero__now_ns();
    return (double)(*ns - before) / 1e9;
}

int zero_commit(struct zero_runtime *rt)
{
    int err = zero__runtime_error(rt), refused = 0;
    int64_t at = zero__now_ns();

    if (!err && rt->phase != PHASE_SETUP)
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
        err = zero__callback_create(rt);
    if (!err)
        err = zero__program_install(rt);
    const double program_s = since(&at);
    if (!err)
        zero__spare_tell(rt);
    if (!err)
        err = zero__memory_reserve(rt);
    if (!err)
        err = arrays_make(rt);
    if (!err)
        err = zero__memory_map(rt);
    if (!err)
        err = zero__progress_start(rt);
    if (!err)
        err = zero__storage_start(rt);
    if (err)
        goto out;
    const double memory_s = since(&at);
    rt->body = &rt->programs[0]->bodies[ZERO__UPDATE_BODY];
    rt->body_kind = ZERO__UPDATE_BODY;
    err = scalars_init(rt);
    if (!err)
        err = zero__values_init(rt);
out:
    if (err) {
        err = zero__runtime_cause(rt, err);
        zero__runtime_fail(rt, rt->rank, err, "zero_commit", zero__error_text());
        zero__crash_report(rt);
        return err;
    }
    rt->phase = PHASE_IDLE;
    zero__log(&rt->log, ZERO_LOG_INFO, "engine",
              "ready after %.3g s of finding places, %.3g of making the program and its plan, %.3g "
              "of reserving memory, %.3g of first values",
              places_s, program_s, memory_s, since(&at));
    return 0;
}
