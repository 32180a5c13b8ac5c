/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator's end. Its last words are BYE, or why it failed. A closed communicator goes when
 * none of its messages is under way and every peer has said BYE: a rank that left earlier would
 * take the connection away from peers that still wait for what it sent. Nobody is waited for but in
 * the close of the context, and there not for long.
 */
#include <errno.h>

#include "../list.h"
#include "internal.h"
#include "machine/clock.h"

#define LINGER_NS (2 * ZERO_SECOND) /* for peers that end the same collective later */
#define HURRY_NS (ZERO_SECOND / 10) /* after an error */
#define NAP_NS (INT64_C(1000) * 1000) /* what comes ends it */

/* A turn of the transport, and a nap if it moved nothing: libzero counts the time computed here. */
static int turn(struct zero__p2p *t)
{
    uint64_t before = t->n_ended;
    int err = t->ops->progress(t);

    if (!err && t->n_ended == before)
        t->ops->wait(t, NAP_NS);
    return err;
}

bool zero__p2p_say_last(struct zero_comm *comm)
{
    bool all = true;

    if (comm->ctx->broken)
        return false;
    for (int32_t p = 0; p < comm->ranks; p++) {
        struct p2p_peer *peer = &comm->peers[p];
        /* BYE differs from peer to peer; the places of other words are free by then. */
        struct p2p_message *m = comm->err ? comm->last : comm->runs[0].parts[p].message;
        if (!comm->err) {
            m->word = P2P_BYE;
            m->index = peer->n_said;
        }
        if (peer->say_last && !peer->last.busy &&
            zero__p2p_word_send(comm, p, m, &peer->last) != -EAGAIN)
            peer->say_last = false;
        all &= !peer->say_last;
    }
    return all;
}

/* Messages of data, which are in memory of the application. */
static bool data_is_busy(const struct p2p_part *part)
{
    bool busy = part->in.busy || part->out.busy;

    for (uint32_t i = 0; i < P2P_DEPTH; i++)
        busy |= part->chunk[i].busy;
    return busy;
}

static bool is_busy(const struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->ranks; p++) {
        const struct p2p_peer *peer = &comm->peers[p];
        if (peer->word_in.busy || peer->last.busy || peer->notice.busy)
            return true;
        for (uint32_t r = 0; r < P2P_RUNS; r++) {
            const struct p2p_part *part = &comm->runs[r].parts[p];
            if (part->word.busy || data_is_busy(part))
                return true;
        }
        for (uint32_t i = 0; i < P2P_DEPTH; i++)
            if (comm->slots[i].ops[p].busy)
                return true;
    }
    return zero__p2p_steps_busy(comm, false);
}

/* Has every peer left, in peace or not? */
static bool all_left(const struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->ranks; p++)
        if (p != comm->rank && !zero__p2p_has_left(&comm->peers[p]) &&
            !zero__p2p_lost(comm->ctx->t, comm->world[p]))
            return false;
    return true;
}

/* Receives that nobody will meet any more. */
static void cancel_all(struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->ranks; p++) {
        zero__p2p_cancel(comm, &comm->peers[p].word_in);
        for (uint32_t i = 0; i < P2P_DEPTH; i++)
            zero__p2p_cancel(comm, &comm->slots[i].ops[p]);
    }
    zero__p2p_steps_cancel(comm);
}

int zero__p2p_comm_close(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    if (atomic_load(&ctx->aborted)) /* nobody may have called progress() since */
        zero__p2p_fail(comm, -ECANCELED, "rank %d aborted", ctx->rank);
    ZERO__UNLINK(&ctx->comms, comm);
    comm->next = ctx->closed;
    ctx->closed = comm;
    if (comm->err) {
        cancel_all(comm);
    } else {
        for (int32_t p = 0; p < comm->ranks; p++)
            comm->peers[p].say_last = p != comm->rank;
    }
    zero__p2p_sweep(ctx);
    return 0;
}

void zero__p2p_sweep(struct zero_comm_ctx *ctx)
{
    if (ctx->broken) /* they go with the context */
        return;
    for (struct zero_comm **link = &ctx->closed; *link;) {
        struct zero_comm *comm = *link;
        bool failed = comm->err != 0;
        if (!failed)
            zero__p2p_listen(comm);
        bool said = zero__p2p_say_last(comm); /* BYE may be what fails it */
        if (comm->err && !failed)
            cancel_all(comm);
        if (!said || (!comm->err && !all_left(comm)) || is_busy(comm)) {
            link = &comm->next;
            continue;
        }
        *link = comm->next;
        zero__p2p_comm_free(comm);
    }
}

/* Does a message read or write this memory of the application? */
static bool uses_memory(const struct zero_comm *comm, const struct zero_mr *mr)
{
    for (uint32_t r = 0; r < P2P_RUNS; r++)
        for (int32_t p = 0; p < comm->ranks; p++) {
            const struct p2p_run *run = &comm->runs[r];
            if (data_is_busy(&run->parts[p]) && zero__p2p_coll_uses(run->coll, mr))
                return true;
        }
    return zero__p2p_steps_use(comm, mr);
}

/* Does one that has failed, of this list? */
static bool list_uses_memory(const struct zero_comm *comm, const struct zero_mr *mr)
{
    for (; comm; comm = comm->next)
        if (comm->err && uses_memory(comm, mr))
            return true;
    return false;
}

void zero__p2p_let_go(struct zero_comm_ctx *ctx, const struct zero_mr *mr)
{
    int64_t until = zero__deadline_ns(HURRY_NS);
    int err = 0;

    if (atomic_load(&ctx->aborted))
        zero__p2p_abort_all(ctx);
    while (!ctx->broken &&
           (list_uses_memory(ctx->comms, mr) || list_uses_memory(ctx->closed, mr))) {
        if (zero__now_ns() >= until)
            err = -ECONNABORTED;
        else
            err = turn(ctx->t);
        if (err < 0)
            ctx->broken = err;
    }
    if (ctx->broken)
        zero__p2p_stop(ctx, true);
}

void zero__p2p_linger(struct zero_comm_ctx *ctx, bool failed)
{
    int64_t until = zero__deadline_ns(failed ? HURRY_NS : LINGER_NS);

    while (ctx->closed && !ctx->broken && zero__now_ns() < until) {
        if (turn(ctx->t) < 0)
            return;
        zero__p2p_sweep(ctx);
    }
}
