/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting. What has a stream of the caller's is put on it by and by, while NCCL's thread is at work
 * for what is before it; what has none waits in a ring for the communicator's own stream.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nccl.h"

static int slice_check(struct zero_comm *comm, const struct zero_coll *c,
                       const struct zero_slice *s)
{
    const struct zero__voice *v = &comm->ctx->voice;

    return s->len ? zero__coll_check_place(v, c, s, s->mr->exchanged, s->mr->bytes) : 0;
}

static int coll_check(struct zero_comm *comm, const struct zero_coll *c)
{
    const struct zero__voice *v = &comm->ctx->voice;
    int err = zero__coll_check(v, c, comm->rank, comm->ranks);

    if (!err && zero__coll_reduces(c->kind) && c->redop != ZERO_SUM)
        err =
            zero__say(v, -ENOTSUP, "%s: NCCL passes over NaNs in a maximum: only sums are offered",
                      zero_coll_name(c->kind));
    if (!err)
        err = slice_check(comm, c, &c->src);
    if (!err)
        err = slice_check(comm, c, &c->dst);
    return err ? err
               : zero__coll_check_overlap(v, c, comm->rank, nccl_at(&c->src), nccl_at(&c->dst));
}

/* ---- Calls of NCCL --------------------------------------------------------------------------- */

static int type_of(uint32_t dtype)
{
    switch (dtype) {
    case ZERO_F32:
        return NCCL_F32;
    case ZERO_F64:
        return NCCL_F64;
    case ZERO_I32:
        return NCCL_I32;
    case ZERO_I64:
        return NCCL_I64;
    default:
        return NCCL_U8;
    }
}

/* Moves bytes, or sums in the type that they have. */
static int call(struct zero_comm *comm, const struct zero_coll *c, void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    uint64_t bytes = c->count * zero_dtype_bytes(c->src_dtype);
    char *at;

    comm->launched++;
    if (c->kind == ZERO_BARRIER)
        return ctx->nccl.AllReduce(comm->token, comm->token, 1, NCCL_I32, NCCL_SUM, comm->nccl,
                                   stream);
    if (c->count == 0)
        return NCCL_OK;
    switch (c->kind) {
    case ZERO_ALL_GATHER:
        return ctx->nccl.AllGather(nccl_at(&c->src), nccl_at(&c->dst), bytes, NCCL_U8, comm->nccl,
                                   stream);
    case ZERO_BROADCAST:
        at = nccl_at(comm->rank == c->root ? &c->src : &c->dst);
        return ctx->nccl.Broadcast(at, at, bytes, NCCL_U8, c->root, comm->nccl, stream);
    default:
        return nccl_sum(comm, c, type_of(c->src_dtype), nccl_at(&c->src), nccl_at(&c->dst),
                        c->count, stream);
    }
}

/* What follows one another and needs nothing but NCCL, as one launch. */
static int launch_run(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_work *w = &comm->work;
    const char *doing = zero_coll_name(w->colls[w->at].kind);
    int r = ctx->nccl.GroupStart(), end;

    if (r != NCCL_OK)
        return nccl_called(comm, r, doing);
    while (w->at < w->n && !nccl_sum_is_staged(&w->colls[w->at]) && r == NCCL_OK)
        r = call(comm, &w->colls[w->at++], w->stream);
    end = ctx->nccl.GroupEnd(); /* always: the group is the thread's */
    return nccl_called(comm, r == NCCL_OK ? end : r, doing);
}

/* Part of the batch may be on its stream: nothing more can follow in order. */
static int give_up(struct zero_comm *comm, int err)
{
    char text[NCCL_TEXT];

    if (atomic_load(&comm->err) || atomic_load(&comm->ctx->aborted))
        return err;
    snprintf(text, sizeof text, "%s: the device does not take its part of it (%s)", comm->doing,
             strerror(-err));
    return nccl_comm_fail(comm, err, text);
}

bool nccl_turn(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    bool free = true;

    if (ctx->nccl.version >= NCCL_2_27)
        return true;
    for (struct zero_comm *other = ctx->comms; other; other = other->next)
        if (other != comm && other->launching && !other->end->over)
            free = false;
    return free;
}

int nccl_room(struct zero_comm *comm)
{
    if (comm->launched < NCCL_LAUNCHES)
        return 0;
    int err = comm->ctx->ops->event_query(comm->ctx->dev, comm->marks[comm->n_marks % 2]);
    return err == -EINPROGRESS ? -EAGAIN : err;
}

/* Where as much has been launched: the older mark becomes the newer one. */
static int room_take(struct zero_comm *comm)
{
    int err = nccl_room(comm);

    if (err || comm->launched < NCCL_LAUNCHES)
        return err;
    err = comm->ctx->ops->event_record(comm->ctx->dev, comm->marks[comm->n_marks % 2],
                                       comm->work.stream);
    comm->n_marks += !err;
    comm->launched = err ? comm->launched : 0;
    return err;
}

/* Puts what is not there yet of a batch on its stream: 0 when all is, -EAGAIN, or an error. */
static int advance(struct zero_comm *comm)
{
    struct nccl_work *w = &comm->work;
    int err = nccl_settle(comm);

    while (!err && w->at < w->n) {
        const struct zero_coll *c = &w->colls[w->at];
        err = nccl_turn(comm) ? room_take(comm) : -EAGAIN;
        if (err)
            break;
        if (nccl_sum_is_staged(c)) {
            err = nccl_sum_step(comm, c);
            w->at += err == 1;
            err = err == 1 ? 0 : err;
        } else {
            err = launch_run(comm);
        }
        if (!err)
            err = nccl_settle(comm);
    }
    if (err != -EAGAIN)
        w->active = false;
    return err && err != -EAGAIN ? give_up(comm, err) : err;
}

/* ---- The own stream -------------------------------------------------------------------------- */

static int own_make(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = comm->stream ? 0 : ctx->ops->stream_create(ctx->dev, NCCL_NAME, &comm->stream);

    for (uint32_t i = 0; i < NCCL_INFLIGHT && !err; i++)
        if (!comm->ring[i].event)
            err = ctx->ops->event_create(ctx->dev, &comm->ring[i].event);
    return err;
}

int nccl_begin(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_work *w = &comm->work;
    int err = 0;

    while (comm->begun != comm->posted && !err) {
        struct nccl_entry *e = &comm->ring[comm->begun % NCCL_INFLIGHT];
        if (w->active && w->stream != comm->stream) /* a batch of the caller's is before it */
            return -EAGAIN;
        if (!w->active)
            *w = (struct nccl_work){.active = true, .n = 1, .stream = comm->stream};
        w->colls = &e->coll;
        err = advance(comm);
        if (!err)
            err = ctx->ops->event_record(ctx->dev, e->event, comm->stream);
        if (err && err != -EAGAIN)
            return give_up(comm, err);
        comm->begun += !err;
    }
    return err;
}

static int post_own(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n)
{
    int err = zero__coll_check_batch(&comm->ctx->voice, n, NCCL_INFLIGHT,
                                     NCCL_INFLIGHT - (comm->posted - comm->completed), NULL);

    if (!err)
        err = own_make(comm);
    if (err)
        return err;
    for (uint32_t i = 0; i < n; i++)
        comm->ring[(comm->posted + i) % NCCL_INFLIGHT].coll = colls[i];
    comm->posted += n;
    err = nccl_begin(comm);
    return err == -EAGAIN || atomic_load(&comm->err) ? 0 : err; /* completions tell */
}

/* ---- Streams of the caller's ----------------------------------------------------------------- */

static int post_in(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    struct nccl_work *w = &comm->work;
    int err = nccl_begin(comm);

    if (err)
        return err;
    if (!w->active)
        *w = (struct nccl_work){.active = true, .n = n, .stream = stream};
    else if (w->n != n || w->stream != stream)
        return zero__say(&comm->ctx->voice, -EINVAL,
                         "another batch is not on its stream yet: post it again before others");
    w->colls = colls;
    err = advance(comm);
    for (uint32_t i = 0; i < n && !err; i++)
        comm->wire += zero__coll_wire(&colls[i], comm->rank, comm->ranks);
    return err;
}

int nccl_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    int err = nccl_enter(comm->ctx);

    if (err)
        return err;
    err = nccl_settle(comm);
    if (err == -EAGAIN)
        err = 0;
    for (uint32_t i = 0; i < n && !err; i++)
        err = coll_check(comm, &colls[i]);
    if (!err && n)
        err = stream ? post_in(comm, colls, n, stream) : post_own(comm, colls, n);
    nccl_leave(comm->ctx);
    return err;
}
