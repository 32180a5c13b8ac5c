/* SPDX-License-Identifier: Apache-2.0 */
/* A context over a transport: memory, which needs no exchange of addresses, and its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../list.h"
#include "../oob.h"
#include "../reduce.h"
#include "../wake.h"
#include "machine/clock.h"
#include "internal.h"
#include "place.h"

int zero__p2p_caps(const struct zero__voice *voice, struct zero_comm_caps *caps)
{
    enum zero__isa isa;
    int err = zero__isa_select(voice->host, voice->plugin, &isa);
    int32_t group;
    bool relaxed;

    if (!err)
        err = zero__p2p_numerics(voice, &relaxed, &group);
    if (err)
        return err;
    zero__caps_of_host(
        caps, ZERO_COMM_ACCUMULATE | ZERO_COMM_FINGERPRINT | (relaxed ? 0 : ZERO_COMM_ORDERED),
        ZERO__P2P_MAX_RANKS, P2P_SLOTS);
    return 0;
}

/* Words go in one message each. */
static int limit_check(const struct zero__voice *v, const struct zero__p2p *t)
{
    if (t->max_message == 0 || t->max_message >= sizeof(struct p2p_message))
        return 0;
    return zero__say(
        v, -EMSGSIZE,
        "the transport carries messages of at most %llu bytes%s, but ranks need %zu to "
        "agree on collectives: use another device, or another ZERO_COMM",
        (unsigned long long)t->max_message, t->way, sizeof(struct p2p_message));
}

int zero__p2p_new(const struct zero__voice *voice, const struct zero_comm_open *params,
                  const struct zero__p2p_ops *ops, size_t bytes, struct zero__p2p **out)
{
    struct zero__p2p *t;
    int err = zero__oob_check(voice, params->oob, ZERO__P2P_MAX_RANKS);

    if (!err && params->device >= 0)
        err = zero__say(voice, -ENOTSUP, "%s works on host memory only", voice->plugin);
    if (err)
        return err;
    t = calloc(1, bytes);
    if (!t)
        return zero__say(voice, -ENOMEM, "no memory for a context");
    *t = (struct zero__p2p){.ops = ops,
                            .voice = *voice,
                            .rank = params->oob->rank,
                            .ranks = params->oob->ranks,
                            .timeout_ns = params->timeout_ns,
                            .wake_fd = -1};
    *out = t;
    return 0;
}

static void transport_close(struct zero__p2p *t)
{
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    t->ops->close(t);
}

static void context_free(struct zero_comm_ctx *ctx)
{
    if (!ctx)
        return;
    free(ctx->hosts);
    free(ctx->notices);
    free(ctx);
}

static struct zero_comm_ctx *context_new(size_t ranks)
{
    struct zero_comm_ctx *ctx = calloc(1, sizeof *ctx);

    if (!ctx)
        return NULL;
    ctx->hosts = calloc(ranks, sizeof *ctx->hosts);
    ctx->notices = calloc(ranks, sizeof *ctx->notices);
    if (ctx->hosts && ctx->notices)
        return ctx;
    context_free(ctx);
    return NULL;
}

int zero__p2p_open(const struct zero_comm_open *params, struct zero__p2p *t,
                   struct zero_comm_ctx **out)
{
    const struct zero__voice *voice = &t->voice;
    struct zero_comm_ctx *ctx = context_new((size_t)params->oob->ranks);
    struct p2p_place *all = calloc((size_t)params->oob->ranks, sizeof *all);
    int err = ctx && all ? zero__isa_select(voice->host, voice->plugin, &ctx->isa)
                         : zero__say(voice, -ENOMEM, "no memory for a context");

    if (!err)
        err = zero__p2p_numerics(voice, &ctx->relaxed, &ctx->group);
    if (!err)
        err = limit_check(voice, t);
    if (!err)
        err = zero__wake_make(voice, &t->wake_fd);
    err = zero__oob_agree(voice, params->oob, zero__deadline_ns(params->timeout_ns), "open", err);
    if (err)
        goto end;
    ctx->voice = *voice;
    ctx->t = t;
    ctx->oob = params->oob;
    ctx->most =
        t->max_message && t->max_message < P2P_MESSAGE_MOST ? t->max_message : P2P_MESSAGE_MOST;
    ctx->rank = params->oob->rank;
    ctx->ranks = params->oob->ranks;
    ctx->timeout_ns = params->timeout_ns;
    ctx->left = -1;
    err = zero__p2p_places(ctx, all);

end:
    free(all);
    if (!err) {
        *out = ctx;
        return 0;
    }
    context_free(ctx);
    t->ops->stop(t, true);
    transport_close(t);
    return err;
}

int zero__p2p_broken(const struct zero_comm_ctx *ctx)
{
    return zero__say(&ctx->voice, ctx->broken, "the transport is broken: %s%s",
                     zero__p2p_words(ctx->t, ctx->broken), ctx->t->way);
}

int zero__p2p_usable(struct zero_comm_ctx *ctx)
{
    if (atomic_load(&ctx->aborted))
        return zero__say(&ctx->voice, -ECANCELED, "the context was aborted");
    if (ctx->left >= 0)
        return zero__say(&ctx->voice, -ECANCELED, "rank %d aborted", ctx->left);
    return ctx->broken ? zero__p2p_broken(ctx) : 0;
}

void zero__p2p_stop(struct zero_comm_ctx *ctx, bool aborted)
{
    if (!ctx->stopped)
        ctx->t->ops->stop(ctx->t, aborted);
    ctx->stopped = true;
}

int zero__p2p_close(struct zero_comm_ctx *ctx)
{
    struct zero__p2p *t = ctx->t;
    bool failed = atomic_load(&ctx->aborted) || ctx->broken;

    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        failed |= comm->err != 0;
    while (ctx->comms)
        zero__p2p_comm_close(ctx->comms);
    zero__p2p_linger(ctx, failed);
    zero__p2p_stop(ctx, failed);
    while (ctx->closed) {
        struct zero_comm *comm = ctx->closed;
        ctx->closed = comm->next;
        zero__p2p_comm_free(comm);
    }
    while (ctx->mrs)
        zero__p2p_unreg(ctx, ctx->mrs);
    transport_close(t);
    context_free(ctx);
    return 0;
}

int zero__p2p_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                  struct zero_mr **out)
{
    struct zero_mr *mr;
    int err;

    if (mem != ZERO_MEM_HOST)
        return zero__say(&ctx->voice, -ENOTSUP, "reg: memory kind %u, but %s takes host memory",
                         mem, ctx->voice.plugin);
    if (!base || bytes == 0 || bytes > INT64_MAX || (uintptr_t)base > UINTPTR_MAX - bytes)
        return zero__say(&ctx->voice, -EINVAL, "reg: %llu bytes at %p are no memory that there "
                         "can be", (unsigned long long)bytes, base);
    if (ctx->stopped)
        return zero__p2p_usable(ctx);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    err = ctx->t->ops->reg(ctx->t, base, bytes, &mr->handle);
    if (err) {
        free(mr);
        return err;
    }
    mr->base = base;
    mr->bytes = bytes;
    mr->next = ctx->mrs;
    ctx->mrs = mr;
    *out = mr;
    return 0;
}

int zero__p2p_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    zero__p2p_let_go(ctx, mr);
    ZERO__UNLINK(&ctx->mrs, mr);
    ctx->t->ops->unreg(ctx->t, mr->handle);
    free(mr);
    return 0;
}

/* Peers never address this memory, but all must agree that it is there. */
int zero__p2p_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    struct p2p_notice mine = {.call = P2P_CALL_EXCHANGE};
    int err;

    if (mr->exchanged)
        mine.status =
            zero__say(&ctx->voice, -EINVAL, "exchange: this registration was exchanged before");
    err = zero__p2p_gather(ctx, NULL, &mine, ctx->notices);
    if (!err)
        mr->exchanged = true;
    return err;
}

int zero__p2p_wake(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->woken, true);
    zero__wake_ring(ctx->t->wake_fd);
    return 0;
}

int zero__p2p_abort(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->aborted, true);
    zero__wake_ring(ctx->t->wake_fd);
    return 0;
}
