/* SPDX-License-Identifier: Apache-2.0 */
/* The recipe by which programs are compiled, made of the options at commit. */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/runtime.h"

/* Pieces of mapped memory that a rank may need: the kernel's usual limit for a process is 65,530 */
#define MOST_MAPS 32768u

/* Why shards are not mapped; NULL: they are. The recipe says where they can be. */
static const char *map_obstacle(const struct zero_runtime *rt)
{
    uint64_t n = 0;

    if (rt->site.recipe.map_bytes > ZERO_BUFFER_ALIGN) /* homes start at multiples of that */
        return "the pages of this machine are too large";
    if (!zero__device_is_host(&rt->site))
        return "the device's memory is its own";
    if (!(rt->site.caps.flags & ZERO_COMM_MAP) || !rt->site.comm_ops.alloc ||
        !rt->site.comm_ops.map)
        return "the comm plugin cannot map";
    /*
     * A product reads a peer's rows from the other node whenever they have left its caches, a copy
     * once. All ranks know of each other's nodes, and decide alike.
     */
    if (zero__option_int(rt->site.options, ZERO__OPT_MAP) == ZERO__MAP_AUTO &&
        __builtin_popcount(rt->site.memory_nodes) > 1)
        return "ranks may run on several memory nodes; 1 maps all the same";
    for (uint32_t i = 0; i < rt->site.model.n_segments; i++)
        n += zero__recipe_maps(&rt->site.recipe, &rt->site.model.segments[i]);
    if (!n)
        return "no shard is whole pages";
    return n * (uint64_t)rt->site.ranks > MOST_MAPS ? "there are too many segments and ranks"
                                                    : NULL;
}

/*
 * With the layout known: whether shards are mapped at all. Who asked for it hears why not, from one
 * rank, as all decide alike.
 */
void zero__map_decide(struct zero_runtime *rt)
{
    struct zero__recipe *r = &rt->site.recipe;
    const char *obstacle;

    if (r->stage < 3 || r->ranks < 2 || !r->map_bytes || !(obstacle = map_obstacle(rt)))
        return;
    bool asked =
        !rt->site.rank && zero__option_int(rt->site.options, ZERO__OPT_MAP) == ZERO__MAP_ALWAYS;
    r->map_bytes = 0;
    zero__log(&rt->site.log, asked ? ZERO_LOG_WARN : ZERO_LOG_INFO, "engine",
              "parameters are gathered and not mapped (ZERO_MAP): %s", obstacle);
}

/* Tests: ZERO_TEST_TILES=N, so that the update of a small model uses a tile's place again. */
static uint32_t tiles_at_once(void)
{
    const char *text = secure_getenv("ZERO_TEST_TILES");
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;

    return n > 0 && n < ZERO__TILES ? (uint32_t)n : ZERO__TILES;
}

void zero__recipe_make(struct zero_runtime *rt)
{
    static const uint32_t moments[] = {[ZERO__ADAMW] = 2, [ZERO__ADAM] = 2, [ZERO__CALLBACK] = 2};
    const struct zero__options *o = rt->site.options;
    int64_t reduce_at = zero__option_int(o, ZERO__OPT_REDUCE_AT);
    struct zero__recipe *r = &rt->site.recipe;

    r->stage = (uint32_t)zero__option_int(o, ZERO__OPT_STAGE);
    r->ranks = (uint32_t)rt->site.ranks;
    r->rank = (uint32_t)rt->site.rank;
    r->accum = (uint32_t)zero__option_int(o, ZERO__OPT_ACCUM);
    r->bucket_bytes = zero__option_bytes(o, ZERO__OPT_BUCKET_BYTES);
    r->prefetch_bytes = zero__option_bytes(o, ZERO__OPT_PREFETCH_BYTES);
    r->retain_bytes = zero__option_int(o, ZERO__OPT_RETAIN_BYTES);
    if (zero__option_int(o, ZERO__OPT_MAP) != ZERO__MAP_NEVER)
        r->map_bytes = (uint64_t)sysconf(_SC_PAGESIZE); /* see zero__map_decide() */
    r->tiles = tiles_at_once();
    r->tile = (uint32_t)(zero__option_bytes(o, ZERO__OPT_TILE_BYTES) / sizeof(float) /
                         ZERO_SUMSQ_BLOCK * ZERO_SUMSQ_BLOCK);
    r->boundary =
        reduce_at == ZERO__REDUCE_AUTO ? r->stage < 2 : reduce_at == ZERO__REDUCE_BOUNDARY;
    if (rt->site.optimizer == ZERO__SGD) {
        for (uint32_t i = 0; i < rt->site.model.n_groups; i++)
            if (rt->site.model.groups[i].hyper.momentum != 0)
                r->n_moments = 1;
    } else {
        r->n_moments = moments[rt->site.optimizer];
    }
    r->early = zero__option_int(o, ZERO__OPT_UPDATE_AT) == ZERO__UPDATE_BACKWARD;
    /* An application's own optimizer is given fp32. */
    r->halves = rt->site.optimizer != ZERO__CALLBACK;
    r->host_updates = (uint32_t)zero__lanes_host_updates(rt->run);
    r->state_dtype = zero__option_int(o, ZERO__OPT_STATE_DTYPE) ? ZERO_BF16 : ZERO_F32;
}

/*
 * With the states laid out: whether anything is updated beside the backward pass, which then knows
 * nothing of the other gradients.
 */
int zero__early_check(struct zero_runtime *rt)
{
    double clip = zero__option_real(rt->site.options, ZERO__OPT_CLIP);
    uint32_t n = 0;

    for (uint32_t u = 0; u < rt->site.model.n_units && rt->site.recipe.early; u++)
        n += (uint32_t)zero__unit_is_early(&rt->site.model, &rt->site.states, u);
    if (rt->site.recipe.early && !n)
        zero__log(&rt->site.log, ZERO_LOG_INFO, "engine",
                  "ZERO_UPDATE_AT=backward changes nothing: no optimizer states lie outside the "
                  "device");
    rt->site.recipe.early = n > 0;
    if (!n)
        return 0;
    if (clip > 0)
        return zero__fail(-EINVAL,
                          "ZERO_CLIP is %g and ZERO_UPDATE_AT backward: clipping needs the norm of "
                          "all gradients before the first update; set ZERO_CLIP=0 or "
                          "ZERO_UPDATE_AT=end",
                          clip);
    if (rt->site.model.train_dtype == ZERO_F16 &&
        zero__option_real(rt->site.options, ZERO__OPT_LOSS_SCALE) == 0)
        return zero__fail(-EINVAL,
                          "ZERO_LOSS_SCALE is dynamic and ZERO_UPDATE_AT backward: a step that "
                          "overflows could not be skipped; set ZERO_LOSS_SCALE to a number, train "
                          "in bf16, or set ZERO_UPDATE_AT=end");
    if (rt->site.optimizer == ZERO__CALLBACK)
        return zero__fail(-EINVAL,
                          "ZERO_UPDATE_AT is backward, and an optimizer by callback is not called "
                          "beside the application: set ZERO_UPDATE_AT=end");
    return 0;
}
