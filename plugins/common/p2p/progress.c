/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn moves the transport on, then every communicator in which a message has ended, by a
 * bounded piece of work. A caller that waits takes turns, lets others run after a few empty ones,
 * and sleeps in the transport at last.
 */
#include <errno.h>
#include <string.h>

#include "../list.h"
#include "internal.h"

#define SHORT_NS (INT64_C(1000) * 1000) /* of a sleep when something is to be tried again */

static void move_on(struct zero_comm *comm, uint64_t *budget)
{
    zero__p2p_listen(comm);
    zero__p2p_start(comm);
    for (uint64_t s = comm->completed; s < comm->started && !comm->err; s++)
        zero__p2p_run(comm, zero__p2p_run_at(comm, s), budget);
    if (comm->err)
        return;
    if (comm->way.hosts) { /* then all sums go in steps */
        zero__p2p_steps(comm, budget);
    } else {
        zero__p2p_sum(comm, budget);
        zero__p2p_grant(comm);
    }
    if (!comm->err)
        zero__p2p_talk(comm);
}

/* Has the oldest collective ended, or will it never? */
static bool may_collect(struct zero_comm *comm, bool *done)
{
    *done = false;
    if (comm->completed == comm->posted)
        return false;
    *done = comm->completed < comm->started &&
            zero__p2p_is_done(comm, zero__p2p_run_at(comm, comm->completed));
    return *done || (comm->err &&
                     (zero__p2p_is_quiet(comm) || zero__now_ns() >= comm->quiet_ns));
}

static uint32_t collect(struct zero_comm *comm, struct zero_cqe *cqes, uint32_t max)
{
    uint32_t n = 0;
    bool done;

    while (n < max && may_collect(comm, &done)) {
        const struct zero_coll *c = &comm->colls[comm->completed % P2P_SLOTS].c;

        cqes[n++] = (struct zero_cqe){c->user, done ? (int64_t)c->dst.len : comm->err};
        if (done)
            comm->wire += zero__p2p_run_at(comm, comm->completed)->wire;
        comm->completed++;
        if (comm->started < comm->completed)
            comm->started = comm->completed; /* after an error: never started */
        comm->stirred = true;
    }
    return n;
}

static void break_all(struct zero_comm_ctx *ctx)
{
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        if (!comm->err)
            zero__p2p_fail(comm, ctx->broken, "the transport is broken: %s%s",
                           zero__p2p_words(ctx->t, ctx->broken), ctx->t->way);
}

/* A communicator fails with the first of its peers that is lost; others go on. */
static void lose_peers(struct zero_comm_ctx *ctx)
{
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        for (int32_t p = 0; p < comm->ranks && !comm->err; p++) {
            int err = zero__p2p_lost(ctx->t, comm->world[p]);
            if (err)
                zero__p2p_fail(comm, -ECONNRESET, "the connection to rank %d broke: %s%s",
                               comm->world[p], strerror(-err), ctx->t->way);
        }
}

uint32_t zero__p2p_turn(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max, bool *news)
{
    struct zero__p2p *t = ctx->t;
    uint64_t budget = P2P_PIECE, before = t->n_ended;
    uint32_t n = 0;
    bool done;
    int err = ctx->broken ? 0 : t->ops->progress(t);

    if (err < 0)
        ctx->broken = err;
    if (ctx->broken)
        break_all(ctx);
    if (t->n_lost)
        lose_peers(ctx);
    if (atomic_load(&ctx->aborted))
        zero__p2p_abort_all(ctx);
    *news = err > 0 || t->n_ended != before;
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next) {
        if (comm->seen == t->n_ended && !comm->stirred && !comm->err)
            continue;
        comm->stirred = false;
        comm->seen = t->n_ended;
        if (comm->err)
            comm->stirred = !zero__p2p_say_last(comm);
        else
            move_on(comm, &budget);
        if (!budget) /* it may have had nothing to spend */
            comm->stirred = true;
        if (max > n)
            n += collect(comm, cqes + n, max - n);
        *news |= comm->stirred && !comm->err;
        if (n == max && may_collect(comm, &done)) /* by whoever has room; no news till then */
            comm->stirred = true;
    }
    if (ctx->closed)
        zero__p2p_sweep(ctx);
    if (!budget && ctx->comms) /* who had the first turn has the last one next time */
        ZERO__ROTATE(&ctx->comms);
    return n;
}

/* What is in the transport's own queues, or waits for memory to be free, is tried again soon. */
static int64_t nap_ns(const struct zero_comm_ctx *ctx, int64_t left)
{
    for (const struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        if (comm->stirred || (comm->err && comm->completed != comm->posted))
            return left < SHORT_NS ? left : SHORT_NS;
    return left;
}

int zero__p2p_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                       int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? zero__deadline_ns(timeout_ns) : 0, now;
    bool news;

    zero__idle_begin(&ctx->idle);
    for (;;) {
        uint32_t n = zero__p2p_turn(ctx, cqes, max, &news);
        if (n)
            return (int)n;
        if (atomic_load(&ctx->aborted) && ZERO__ALL_COMPLETED(ctx->comms))
            return zero__say(&ctx->voice, -ECANCELED, "the context was aborted");
        if (ctx->broken && ZERO__ALL_COMPLETED(ctx->comms))
            return zero__p2p_broken(ctx);
        if (timeout_ns <= 0 || ctx->stopped || atomic_exchange(&ctx->woken, false))
            return 0;
        if (zero__idle_spins(&ctx->idle, news))
            continue;
        now = zero__now_ns();
        if (now >= until)
            return 0;
        if (zero__idle_sleeps(&ctx->idle, now, !ZERO__ALL_COMPLETED(ctx->comms)))
            ctx->t->ops->wait(ctx->t, nap_ns(ctx, until - now));
    }
}
