/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that all ranks make together and wait for: every rank says what it does and whether it
 * could, and all come to the same verdict.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "../oob.h"
#include "internal.h"
#include "machine/clock.h"
#include "machine/heard.h"

#define IDLE_TURNS 64u /* before sleeping */
#define NAP_NS (INT64_C(1000) * 1000)

static const char *call_name(uint32_t call)
{
    return call == P2P_CALL_SPLIT ? "split" : call == P2P_CALL_EXCHANGE ? "exchange" : "?";
}

static int32_t world_rank(const struct zero_comm *parent, int32_t p)
{
    return parent ? parent->world[p] : p;
}

/*
 * No rank of this version says such a thing. A key may be any number. This rank's own notice is
 * looked at, too, so that all come to the same verdict.
 */
static int check(struct zero_comm_ctx *ctx, int32_t rank, const struct p2p_notice *n)
{
    const char *what = NULL;
    char value[24] = "";

    if (n->status && n->status != zero__errno_heard(n->status, -EPROTO)) {
        what = "status";
        snprintf(value, sizeof value, "%" PRId32, n->status);
    } else if (n->next_id > P2P_IDS) {
        what = "next_id";
        snprintf(value, sizeof value, "%" PRIu32, n->next_id);
    } else if (n->color < -1 && !n->status) {
        what = "color";
        snprintf(value, sizeof value, "%" PRId32, n->color);
    }
    if (!what)
        return 0;
    return zero__say(&ctx->voice, -EPROTO,
                     "rank %d broke the protocol: in a %s it says that its %s is %s; do all ranks "
                     "use the same version of the plugin?",
                     rank, call_name(n->call), what, value);
}

static int judge(struct zero_comm_ctx *ctx, const struct zero_comm *parent,
                 const struct p2p_notice *all, int32_t rank, int32_t ranks)
{
    for (int32_t p = 0; p < ranks; p++)
        if (all[p].call != all[0].call)
            return zero__say(&ctx->voice, -EPROTO,
                             "ranks %d and %d call different things: %s and %s; every rank must "
                             "make the same calls in the same order",
                             world_rank(parent, 0), world_rank(parent, p), call_name(all[0].call),
                             call_name(all[p].call));
    for (int32_t p = 0; p < ranks; p++)
        if (check(ctx, world_rank(parent, p), &all[p]))
            return -EPROTO;
    for (int32_t p = 0; p < ranks; p++)
        if (all[p].status && p != rank)
            return zero__say(&ctx->voice, all[p].status, "%s failed on rank %d: %s",
                             call_name(all[p].call), world_rank(parent, p),
                             strerror(-all[p].status));
    return all[rank].status; /* said where it failed */
}

/* Takes what has come of a turn, in the ranks' order; the first rank that has not spoken. */
static int32_t hear(const struct zero_comm *comm, uint64_t turn, int32_t heard,
                    struct p2p_notice *all)
{
    for (; heard < comm->ranks; heard++) {
        if (heard == comm->rank)
            continue;
        if (comm->peers[heard].notice_turns[turn % 2] != turn + 1)
            break;
        all[heard] = comm->peers[heard].notices[turn % 2];
    }
    return heard;
}

/* One round of messages among the ranks of `comm`, at most until the context's deadline. */
static int among(struct zero_comm *comm, const struct p2p_notice *mine, struct p2p_notice *all)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int64_t until = zero__deadline_ns(ctx->timeout_ns);
    uint64_t turn = comm->n_notices++;
    struct p2p_message *m = comm->notice[turn % 2];
    int32_t sent = 0, heard = 0;
    unsigned idle = 0;
    bool news;

    m->word = P2P_NOTICE;
    m->index = turn;
    m->notice = *mine;
    all[comm->rank] = *mine;
    for (;;) {
        for (; sent < comm->ranks && !comm->err; sent++) {
            struct zero__p2p_op *op = &comm->peers[sent].notice;
            if (sent != comm->rank && (op->busy || zero__p2p_word_send(comm, sent, m, op)))
                break;
        }
        zero__p2p_turn(ctx, NULL, 0, &news);
        if (comm->err)
            return comm->err;
        if (ctx->broken)
            return zero__p2p_broken(ctx);
        heard = hear(comm, turn, heard, all);
        if (sent == comm->ranks && heard == comm->ranks)
            return 0;
        if (zero__now_ns() >= until)
            return zero__p2p_fail(comm, -ETIMEDOUT,
                                  "%s: rank %d did not take part within %g s (ZERO_TIMEOUT): look "
                                  "at its output; who is only slow needs a larger ZERO_TIMEOUT",
                                  call_name(mine->call),
                                  comm->world[heard < comm->ranks ? heard : sent],
                                  (double)ctx->timeout_ns / 1e9);
        idle = news ? 0 : idle + 1;
        if (idle < IDLE_TURNS)
            sched_yield();
        else /* a rank may come much later; what it sends ends the sleep */
            ctx->t->ops->wait(ctx->t, NAP_NS);
    }
}

int zero__p2p_gather(struct zero_comm_ctx *ctx, struct zero_comm *parent,
                     const struct p2p_notice *mine, struct p2p_notice *all)
{
    int64_t until = zero__deadline_ns(ctx->timeout_ns);
    int err = zero__p2p_usable(ctx);

    if (!err && parent && parent->err)
        err = zero__p2p_error(parent);
    if (err)
        return err;
    if (parent)
        err = among(parent, mine, all);
    else
        err = zero__oob_gather(&ctx->voice, ctx->oob, until, call_name(mine->call), mine,
                               sizeof *mine, all);
    if (err)
        return err;
    return parent ? judge(ctx, parent, all, parent->rank, parent->ranks)
                  : judge(ctx, NULL, all, ctx->rank, ctx->ranks);
}
