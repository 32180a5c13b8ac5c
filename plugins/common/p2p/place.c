/* SPDX-License-Identifier: Apache-2.0 */
/* What stays as it is as long as a context: ranks say it and compare it once, at its open. */
#include "place.h"

#include <errno.h>
#include <inttypes.h>

#include "../oob.h"
#include "machine/clock.h"

static const char *numerics_name(const struct p2p_place *place)
{
    return place->relaxed ? "relaxed" : "ordered";
}

/* This rank's own place is looked at, too, so that all come to the same verdict. */
static int judge(struct zero_comm_ctx *ctx, const struct p2p_place *all)
{
    for (int32_t p = 0; p < ctx->ranks; p++)
        if (all[p].relaxed != all[0].relaxed || all[p].group != all[0].group)
            return zero__say(&ctx->voice, -EPROTO,
                             "ZERO_NUMERICS is %s and ZERO_RELAXED_GROUP %u on rank 0, but %s and "
                             "%u on rank %d: give all ranks the same",
                             numerics_name(&all[0]), all[0].group, numerics_name(&all[p]),
                             all[p].group, p);
    for (int32_t p = 0; p < ctx->ranks; p++)
        if (all[p].max_message < sizeof(struct p2p_message) ||
            all[p].max_message > P2P_MESSAGE_MOST) /* no rank of this version says such a thing */
            return zero__say(&ctx->voice, -EPROTO,
                             "rank %d broke the protocol: in an open it says that its max_message "
                             "is %" PRIu64 "; do all ranks use the same version of the plugin?",
                             p, all[p].max_message);
    return 0;
}

/* A rank that does not know where it runs is alone. */
static void hosts_find(struct zero_comm_ctx *ctx, const struct p2p_place *all)
{
    for (int32_t p = 0; p < ctx->ranks; p++) {
        int32_t q = 0;
        while (q < p && !(ctx->hosts[q] == q && zero__host_same(&all[q].machine, &all[p].machine)))
            q++;
        ctx->hosts[p] = q;
    }
}

/* What the ranks of this machine may use together, and whether they are more than that. */
static void cores_find(struct zero_comm_ctx *ctx, const struct p2p_place *all)
{
    const struct zero__host *mine = &all[ctx->rank].machine;
    struct zero__cores cores = {{0}};
    uint32_t here = 0;

    for (int32_t p = 0; p < ctx->ranks; p++)
        if (p == ctx->rank ||
            (mine->boot[0] && zero__host_same_kernel(&all[p].machine, mine))) {
            zero__cores_add(&cores, &all[p].cores);
            here++;
        }
    zero__caches_find(&ctx->caches, &cores, NULL);
    ctx->idle.shared = here > zero__cores_busy(&cores, NULL);
}

int zero__p2p_places(struct zero_comm_ctx *ctx, struct p2p_place *all)
{
    struct p2p_place mine = {.max_message = ctx->most,
                             .relaxed = ctx->relaxed,
                             .group = (uint32_t)ctx->group};
    int err;

    zero__host_here(&mine.machine);
    zero__cores_here(&mine.cores);
    err = zero__oob_gather(&ctx->voice, ctx->oob, zero__deadline_ns(ctx->timeout_ns), "open", &mine,
                           sizeof mine, all);
    if (!err)
        err = judge(ctx, all);
    if (err)
        return err;
    for (int32_t p = 0; p < ctx->ranks; p++)
        ctx->most = all[p].max_message < ctx->most ? all[p].max_message : ctx->most;
    hosts_find(ctx, all);
    cores_find(ctx, all);
    return 0;
}
