/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and ending communicators, and what can be asked of them. Its number keeps the messages of
 * a communicator apart from those of all others that any of its ranks is in: it is the largest that
 * any rank of the parent would take next. Numbers are not used again when a communicator has
 * closed, since messages of it may still be under way: a context makes P2P_IDS in its life.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../members.h"
#include "internal.h"
#include "machine/clock.h"

void zero__p2p_comm_free(struct zero_comm *comm)
{
    if (!comm)
        return;
    if (comm->handle)
        comm->ctx->t->ops->unreg(comm->ctx->t, comm->handle);
    for (uint32_t i = 0; i < P2P_RUNS; i++)
        free(comm->runs[i].parts);
    for (uint32_t i = 0; i < P2P_DEPTH; i++)
        free(comm->slots[i].ops);
    free(comm->buffers);
    free(comm->way.grid);
    free(comm->legs);
    free(comm->sources);
    free(comm->peers);
    free(comm->world);
    free(comm);
}

static struct zero_comm *comm_new(struct zero_comm_ctx *ctx, int32_t ranks)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);
    size_t n = (size_t)ranks;
    bool ok = true;

    if (!comm)
        return NULL;
    comm->ctx = ctx;
    comm->ranks = ranks;
    comm->world = calloc(n, sizeof *comm->world);
    comm->peers = calloc(n, sizeof *comm->peers);
    comm->sources = calloc(n, sizeof *comm->sources);
    for (uint32_t i = 0; i < P2P_RUNS; i++)
        ok &= (comm->runs[i].parts = calloc(n, sizeof(struct p2p_part))) != NULL;
    for (uint32_t i = 0; i < P2P_DEPTH; i++)
        ok &= (comm->slots[i].ops = calloc(n, sizeof(struct zero__p2p_op))) != NULL;
    if (ok && comm->world && comm->peers && comm->sources)
        return comm;
    zero__p2p_comm_free(comm);
    return NULL;
}

uint64_t zero__p2p_chunk_bytes(const struct zero_comm *comm, uint64_t n)
{
    uint64_t bytes = P2P_BUFFER / n;
    uint64_t most = comm->piece < P2P_CHUNK_MOST ? comm->piece - comm->piece % 64 : P2P_CHUNK_MOST;

    bytes -= bytes % P2P_CHUNK_LEAST;
    bytes = bytes < P2P_CHUNK_LEAST ? P2P_CHUNK_LEAST : bytes;
    return bytes < most ? bytes : most;
}

static struct p2p_message *message_at(const struct zero_comm *comm, uint64_t i)
{
    return (struct p2p_message *)(void *)(comm->buffers + i * sizeof(struct p2p_message));
}

/* Words to and from every peer, and the slots of chunks, in one registration. */
static int buffers_make(struct zero_comm *comm)
{
    uint64_t n = (uint64_t)comm->ranks, words = n * (P2P_RUNS + 1) + 3;
    uint64_t word_bytes = (words * sizeof(struct p2p_message) + 4095) / 4096 * 4096, n_chunks;
    struct zero__p2p *t = comm->ctx->t;

    n_chunks = comm->way.hosts ? zero__p2p_step_buffers(comm) : P2P_DEPTH * n;
    comm->chunk_bytes = zero__p2p_chunk_bytes(comm, n_chunks);
    comm->buffer_bytes = (word_bytes + n_chunks * comm->chunk_bytes + 4095) / 4096 * 4096;
    comm->buffers = aligned_alloc(4096, comm->buffer_bytes);
    if (!comm->buffers)
        return zero__say(&comm->ctx->voice, -ENOMEM,
                         "no memory for the buffers of %d ranks, %llu bytes", comm->ranks,
                         (unsigned long long)comm->buffer_bytes);
    memset(comm->buffers, 0, comm->buffer_bytes);
    for (int32_t p = 0; p < comm->ranks; p++) {
        comm->peers[p].message_in = message_at(comm, (uint64_t)p);
        for (uint64_t r = 0; r < P2P_RUNS; r++)
            comm->runs[r].parts[p].message = message_at(comm, n * (r + 1) + (uint64_t)p);
        for (uint64_t i = 0; i < P2P_INBOX; i++)
            comm->peers[p].inbox[i].index = UINT64_MAX;
    }
    comm->last = message_at(comm, n * (P2P_RUNS + 1));
    comm->notice[0] = comm->last + 1;
    comm->notice[1] = comm->last + 2;
    comm->chunks = comm->buffers + word_bytes;
    if (comm->way.hosts && zero__p2p_steps_make(comm))
        return -ENOMEM;
    return t->ops->reg(t, comm->buffers, comm->buffer_bytes, &comm->handle);
}

/* The communicator of this rank's color. */
static int comm_form(struct zero_comm_ctx *ctx, struct zero_comm *parent,
                     const struct p2p_notice *all, struct zero_comm **out)
{
    int32_t ranks = parent ? parent->ranks : ctx->ranks, own = parent ? parent->rank : ctx->rank;
    struct zero__member *members = calloc((size_t)ranks, sizeof *members);
    struct zero_comm *comm;
    int32_t n = 0, rank = 0;
    int err;

    for (int32_t p = 0; members && p < ranks; p++)
        members[p] = (struct zero__member){.color = all[p].color, .key = all[p].key};
    if (members)
        n = zero__members_choose(members, ranks, own, &rank);
    comm = members ? comm_new(ctx, n) : NULL;
    if (!comm) {
        free(members);
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a communicator of %d ranks", n);
    }
    comm->rank = rank;
    for (int32_t i = 0; i < n; i++)
        comm->world[i] = parent ? parent->world[members[i].parent] : members[i].parent;
    free(members);
    comm->piece = ctx->most;
    err = ctx->relaxed ? zero__p2p_way_make(comm) : 0;
    if (!err)
        err = buffers_make(comm);
    if (err) {
        zero__p2p_comm_free(comm);
        return err;
    }
    *out = comm;
    return 0;
}

static int comm_number(struct zero_comm_ctx *ctx, const struct p2p_notice *all, int32_t ranks,
                       uint32_t *id)
{
    *id = 0;
    for (int32_t p = 0; p < ranks; p++)
        *id = all[p].next_id > *id ? all[p].next_id : *id;
    if (*id >= P2P_IDS)
        return zero__say(&ctx->voice, -ENOSPC,
                         "split: %u communicators were made already, and numbers of closed ones "
                         "are not used again: make them once and keep them, or open a new context",
                         *id);
    ctx->next_id = *id + 1;
    return 0;
}

int zero__p2p_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
                    struct zero_comm **out)
{
    int32_t ranks = parent ? parent->ranks : ctx->ranks;
    struct p2p_notice mine = {
        .call = P2P_CALL_SPLIT, .color = color, .key = key, .next_id = ctx->next_id};
    struct p2p_notice *all = ctx->notices; /* a parent has no more ranks than the context */
    struct zero_comm *comm = NULL;
    uint32_t id = 0;
    int err;

    if (color < -1)
        mine.status = zero__say(&ctx->voice, -EINVAL, "split: color %d is negative", color);
    err = zero__p2p_gather(ctx, parent, &mine, all);
    if (err)
        goto end;
    mine.status = comm_number(ctx, all, ranks, &id);
    if (!mine.status && color >= 0)
        mine.status = comm_form(ctx, parent, all, &comm);
    err = zero__p2p_gather(ctx, parent, &mine, all);
    if (err || !comm)
        goto end;
    comm->id = id;
    comm->next = ctx->comms;
    ctx->comms = comm;
    zero__p2p_listen(comm);
    err = comm->err;
    if (err) { /* some of its receives may be under way: it goes when they have ended */
        zero__p2p_comm_close(comm);
        comm = NULL;
    }
end:
    if (err)
        zero__p2p_comm_free(comm);
    else
        *out = comm;
    return err;
}

int zero__p2p_fail(struct zero_comm *comm, int err, const char *fmt, ...)
{
    const struct zero_comm_ctx *ctx = comm->ctx;
    va_list ap;

    if (comm->err)
        return comm->err;
    va_start(ap, fmt);
    vsnprintf(comm->why, sizeof comm->why, fmt, ap);
    va_end(ap);
    comm->err = err;
    comm->quiet_ns = zero__deadline_ns(P2P_QUIET_NS);
    /* Who hears of an abort from one of several ranks first hears all of it. */
    comm->last->word = P2P_FAIL;
    if (atomic_load(&ctx->aborted) || ctx->left >= 0) {
        comm->last->word = P2P_ABORT;
        comm->last->index = (uint64_t)(ctx->left >= 0 ? ctx->left : ctx->rank);
    }
    comm->last->err = err;
    memcpy(comm->last->why, comm->why, sizeof comm->last->why);
    for (int32_t p = 0; p < comm->ranks; p++) {
        comm->peers[p].say_last = p != comm->rank;
        for (uint32_t r = 0; r < P2P_RUNS; r++)
            zero__p2p_cancel(comm, &comm->runs[r].parts[p].in);
    }
    zero__p2p_steps_cancel(comm);
    comm->stirred = true;
    zero__p2p_say_last(comm);
    return zero__say(&ctx->voice, err, "%s", comm->why);
}

void zero__p2p_abort_all(struct zero_comm_ctx *ctx)
{
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        if (!comm->err)
            zero__p2p_fail(comm, -ECANCELED, "rank %d aborted", ctx->rank);
}

bool zero__p2p_is_quiet(const struct zero_comm *comm)
{
    if (comm->ctx->stopped)
        return true;
    for (uint32_t r = 0; r < P2P_RUNS; r++)
        for (int32_t p = 0; p < comm->ranks; p++)
            if (comm->runs[r].parts[p].in.busy)
                return false;
    return !zero__p2p_steps_busy(comm, true);
}

int zero__p2p_error(struct zero_comm *comm)
{
    return comm->err ? zero__say(&comm->ctx->voice, comm->err, "%s", comm->why) : 0;
}

/*
 * Is a message under way that nobody but rank p keeps from ending? A peer that waits itself grants
 * no chunk, and hands out no part of an all_reduce.
 */
static bool holds_up(const struct zero_comm *comm, const struct p2p_run *run, int32_t p)
{
    const struct p2p_part *part = &run->parts[p];

    if (part->out.busy || (part->in.busy && !zero__p2p_gathers(&run->coll->c)))
        return true;
    for (uint32_t i = 0; i < P2P_DEPTH; i++)
        if (part->chunk[i].busy)
            return true;
    for (uint64_t i = comm->summed; i < comm->given; i++)
        if (comm->slots[i % P2P_DEPTH].run == run && comm->slots[i % P2P_DEPTH].ops[p].busy)
            return true;
    return false;
}

static bool waits_for(const struct zero_comm *comm, const struct p2p_run *run, int32_t p)
{
    const struct p2p_part *part = &run->parts[p];

    return part->in_got < part->in_bytes || part->out_gone < part->out_bytes ||
           part->chunks_gone < part->chunks || zero__p2p_step_waits_for(comm, run, p);
}

int zero__p2p_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    const struct p2p_run *run = zero__p2p_run_at(comm, comm->completed);
    uint32_t n = 0, first = 0;

    if (comm->completed == comm->started)
        return 0;
    for (int32_t p = 0; p < comm->ranks && n < max; p++) {
        const struct p2p_inbox *box = &comm->peers[p].inbox[run->index % P2P_INBOX];
        if (p != comm->rank && !(box->index == run->index && box->posted))
            ranks[n++] = comm->world[p];
    }
    if (n)
        return (int)n;
    for (int32_t p = 0; p < comm->ranks; p++) {
        bool first_of_all = p != comm->rank && holds_up(comm, run, p);
        if (first_of_all || (p != comm->rank && waits_for(comm, run, p)))
            n = zero__members_insert(ranks, n, max, first_of_all ? first++ : n, comm->world[p]);
    }
    return (int)n;
}

int zero__p2p_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    *bytes = comm->wire;
    return 0;
}
