/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making communicators, and what can be asked of them. Those of the context begin with an id that
 * the first rank of each makes and the library's exchange carries; those of a communicator are
 * split from it by NCCL.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/list.h"
#include "nccl.h"

#define NAP_NS 200000
/*
 * For a launch, beyond the deadline: where another operation waits, too, its owner has named that
 * by then; where none does, nobody but this can say why.
 */
#define LATE_NS INT64_C(2000000000)
#define TOKEN_BYTES 4096

int nccl_called(struct zero_comm *comm, int result, const char *doing)
{
    char text[NCCL_TEXT];

    comm->doing = doing;
    if (result == NCCL_OK)
        return 0;
    if (result == NCCL_IN_PROGRESS) {
        comm->launching = true;
        comm->until = comm->ctx->until;
        if (!comm->until)
            comm->until = zero__deadline_ns(comm->ctx->timeout_ns + LATE_NS);
        return 0;
    }
    int err = nccl_describe(comm->ctx, comm->nccl, result, doing, text);
    return nccl_comm_fail(comm, err, text);
}

int nccl_settle(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int r, state = NCCL_OK;

    if (atomic_load(&comm->err))
        return zero__say(&ctx->voice, atomic_load(&comm->err), "%s", comm->why);
    if (atomic_load(&ctx->aborted) || !comm->nccl)
        return zero__say(&ctx->voice, -ECANCELED, "the collectives of this rank were aborted");
    r = ctx->nccl.CommGetAsyncError(comm->nccl, &state);
    r = r == NCCL_OK ? state : r;
    /* Asking does not end the call before 2.26.2: the next one does, and the thread must live. */
    if (r == NCCL_OK && comm->launching)
        r = ctx->nccl.CommCount(comm->nccl, &comm->ranks);
    if (r == NCCL_OK) {
        comm->launching = false;
        return 0;
    }
    if (r != NCCL_IN_PROGRESS)
        return nccl_called(comm, r, comm->doing);
    if (comm->launching && zero__now_ns() >= (ctx->until ? ctx->until : comm->until)) {
        char text[NCCL_TEXT];
        snprintf(text, sizeof text,
                 "%s: NCCL is not ready after %g s (ZERO_TIMEOUT); a peer may be missing, "
                 "NCCL_DEBUG=INFO says more",
                 comm->doing, (double)ctx->timeout_ns * 1e-9);
        return nccl_comm_fail(comm, -ETIMEDOUT, text);
    }
    return -EAGAIN;
}

int nccl_wait(struct zero_comm *comm)
{
    const struct timespec nap = {0, NAP_NS};
    struct zero_comm_ctx *ctx = comm->ctx;

    for (;;) {
        pthread_mutex_lock(&ctx->lock);
        int err = nccl_settle(comm);
        pthread_mutex_unlock(&ctx->lock);
        if (err != -EAGAIN)
            return err;
        nanosleep(&nap, NULL);
    }
}

void nccl_wait_all(struct zero_comm_ctx *ctx)
{
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        if (comm->launching)
            nccl_wait(comm);
}

static struct nccl_config config(void)
{
    return (struct nccl_config){.size = sizeof(struct nccl_config),
                                .magic = NCCL_MAGIC,
                                .version = NCCL_2_18,
                                .blocking = 0,
                                .cluster = NCCL_UNSET,
                                .least_blocks = NCCL_UNSET,
                                .most_blocks = NCCL_UNSET,
                                .network = NULL,
                                .shares = NCCL_UNSET,
                                .traffic = NCCL_UNSET};
}

/* Without a handle of NCCL's; known to the thread that ends them. */
static struct zero_comm *comm_new(struct zero_comm_ctx *ctx)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);
    struct nccl_end *end = calloc(1, sizeof *end);
    struct nccl_entry *ring = calloc(NCCL_INFLIGHT, sizeof *ring);

    if (!comm || !end || !ring) {
        free(ring);
        free(end);
        free(comm);
        zero__say(&ctx->voice, -ENOMEM, "no memory for a communicator");
        return NULL;
    }
    comm->ctx = ctx;
    comm->end = end;
    end->ctx = ctx;
    comm->ring = ring;
    comm->doing = "split";
    pthread_mutex_lock(&ctx->lock);
    comm->next = ctx->comms;
    ctx->comms = comm;
    pthread_mutex_unlock(&ctx->lock);
    return comm;
}

/* What the communicator needs of the device, and registrations. */
static int comm_equip(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = ctx->ops->alloc(ctx->dev, TOKEN_BYTES, NCCL_MEMORY, &comm->token);

    for (int i = 0; i < 2 && !err; i++)
        err = ctx->ops->event_create(ctx->dev, &comm->marks[i]);
    if (!err)
        err = nccl_staging_make(comm);
    if (!err)
        err = nccl_enter(ctx);
    if (err)
        return err;
    if (comm->nccl)
        err = nccl_register_all(comm);
    nccl_leave(ctx);
    return err;
}

/* ---- Of the context -------------------------------------------------------------------------- */

static int id_make(struct zero_comm *comm, nccl_id *id)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = nccl_enter(ctx), r;

    if (err)
        return err;
    r = ctx->nccl.GetUniqueId(id);
    if (r != NCCL_OK)
        err = nccl_fail(ctx, NULL, r, "split: ncclGetUniqueId");
    nccl_leave(ctx);
    return err;
}

static int world_make(struct zero_comm *comm, const nccl_id *id)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_config how = config();
    int err = nccl_enter(ctx), r;

    if (err)
        return err;
    r = ctx->nccl.CommInitRankConfig(&comm->nccl, comm->ranks, *id, comm->rank, &how);
    err = nccl_called(comm, r, "split: ncclCommInitRankConfig");
    nccl_leave(ctx);
    if (!err)
        err = nccl_wait(comm);
    comm->doing = "communication";
    return err;
}

/* All ranks come by here, also those that get none. */
static int world_split(struct zero_comm_ctx *ctx, int32_t color, int32_t key,
                       struct zero_comm **out)
{
    struct zero__member mine = {color, key, ctx->rank}, *all = ctx->members;
    struct zero_comm *comm = color >= 0 ? comm_new(ctx) : NULL;
    nccl_id id = {{0}};
    int32_t first = 0;
    int err = color >= 0 && !comm ? -ENOMEM : 0;

    if (color < -1)
        err = zero__say(&ctx->voice, -EINVAL, "split: color %d is negative", color);
    err = nccl_meet(ctx, "split", err, &mine, sizeof mine);
    if (err)
        goto out;
    if (comm) {
        for (int32_t p = 0; p < ctx->ranks; p++)
            nccl_heard(ctx, p, &all[p], sizeof all[p]);
        comm->ranks = zero__members_choose(all, ctx->ranks, ctx->rank, &comm->rank);
        first = all[0].parent;
    }
    if (comm && first == ctx->rank)
        err = id_make(comm, &id);
    err = nccl_meet(ctx, "split", err, &id, sizeof id);
    if (err)
        goto out;
    if (comm) {
        nccl_heard(ctx, first, &id, sizeof id);
        err = world_make(comm, &id);
    }
    if (!err) /* else the others wait in NCCL, until they hear of it from the library */
        err = nccl_meet(ctx, "split", comm ? comm_equip(comm) : 0, NULL, 0);
out:
    if (err && comm)
        nccl_comm_close(comm);
    else if (!err)
        *out = comm;
    return err;
}

/* ---- Of another communicator ----------------------------------------------------------------- */

static int part_begin(struct zero_comm *parent, struct zero_comm *comm, int32_t color, int32_t key)
{
    struct zero_comm_ctx *ctx = parent->ctx;
    struct nccl_config how = config();
    int err = nccl_enter(ctx), r;

    if (err)
        return err;
    err = nccl_settle(parent); /* it may have been aborted meanwhile */
    if (!err) {
        r = ctx->nccl.CommSplit(parent->nccl, color < 0 ? NCCL_NO_COLOR : color, key, &comm->part,
                                &how);
        err = nccl_called(parent, r, "split: ncclCommSplit");
    }
    nccl_leave(ctx);
    return err ? err : nccl_wait(parent);
}

static int part_finish(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = nccl_wait(comm), r;

    if (err)
        return err;
    err = nccl_enter(ctx);
    if (err)
        return err;
    err = nccl_settle(comm);
    if (!err) {
        r = ctx->nccl.CommUserRank(comm->nccl, &comm->rank);
        err = nccl_called(comm, r, "split: ncclCommUserRank");
    }
    nccl_leave(ctx);
    comm->doing = "communication";
    return err ? err : comm_equip(comm);
}

static int part_split(struct zero_comm *parent, int32_t color, int32_t key, struct zero_comm **out)
{
    struct zero_comm_ctx *ctx = parent->ctx;
    struct zero_comm *comm;
    int err;

    if (color < -1)
        return zero__say(&ctx->voice, -EINVAL, "split: color %d is negative", color);
    err = nccl_wait(parent);
    if (err)
        return err;
    comm = comm_new(ctx);
    if (!comm)
        return -ENOMEM;
    err = part_begin(parent, comm, color, key);
    if (err && !nccl_end_wait(parent)) { /* NCCL's thread may still write into it: it stays */
        pthread_mutex_lock(&ctx->lock);
        ZERO__UNLINK(&ctx->comms, comm);
        pthread_mutex_unlock(&ctx->lock);
        return err;
    }
    pthread_mutex_lock(&ctx->lock);
    comm->nccl = comm->part;
    comm->launching = comm->nccl != NULL;
    comm->until = nccl_until(ctx);
    pthread_mutex_unlock(&ctx->lock);
    if (!err && color >= 0)
        err = part_finish(comm);
    if (err || color < 0)
        nccl_comm_close(comm);
    else
        *out = comm;
    if (!err && color < 0)
        *out = NULL;
    return err;
}

int nccl_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
               struct zero_comm **out)
{
    int err;

    *ctx->said = 0;
    if (atomic_load(&ctx->aborted))
        return zero__say(&ctx->voice, -ECANCELED, "the collectives of this rank were aborted");
    ctx->until = nccl_until(ctx);
    if (ctx->nccl.version < NCCL_2_27) /* see nccl_turn() */
        nccl_wait_all(ctx);
    err = parent ? part_split(parent, color, key, out) : world_split(ctx, color, key, out);
    ctx->until = 0;
    return err;
}

/* ---- Ends and questions ---------------------------------------------------------------------- */

static void comm_free(struct zero_comm *comm)
{
    const struct zero_device_ops *ops = comm->ctx->ops;
    struct zero_device *dev = comm->ctx->dev;

    if (comm->stream && !ops->stream_sync(dev, comm->stream, comm->ctx->timeout_ns))
        ops->stream_destroy(dev, comm->stream);
    for (uint32_t i = 0; i < NCCL_INFLIGHT; i++)
        if (comm->ring[i].event)
            ops->event_destroy(dev, comm->ring[i].event);
    for (int i = 0; i < 2; i++)
        if (comm->marks[i])
            ops->event_destroy(dev, comm->marks[i]);
    if (comm->staged)
        ops->event_destroy(dev, comm->staged);
    if (comm->staging)
        ops->release(dev, comm->staging, 2 * comm->ctx->staging_bytes, NCCL_MEMORY);
    if (comm->token)
        ops->release(dev, comm->token, TOKEN_BYTES, NCCL_MEMORY);
    free(comm->ring);
    free(comm);
}

/*
 * Without the device's context NCCL cannot give anything back: the communicator is aborted then,
 * with what it has, and nothing of it stays known: the device may be gone when the context closes.
 */
int nccl_comm_close(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = nccl_enter(ctx);

    if (err) {
        pthread_mutex_lock(&ctx->lock);
        nccl_comm_fail(comm, err, "the device's context cannot be made current");
    }
    const int64_t began = zero__now_ns();
    nccl_deregister_all(comm); /* of one that has failed: forgets what was registered */
    nccl_redops_end(comm);
    if (err)
        pthread_mutex_unlock(&ctx->lock);
    else
        nccl_leave(ctx);
    if (!nccl_comm_end(comm)) /* what works for it still uses all this */
        return zero__say(&ctx->voice, -ETIMEDOUT,
                         "NCCL does not abort a communicator within %.3g s; what it holds is left "
                         "to the end of the process",
                         (double)(zero__now_ns() - began) * 1e-9);
    comm_free(comm);
    return err;
}

int nccl_error(struct zero_comm *comm)
{
    int err;

    pthread_mutex_lock(&comm->ctx->lock);
    err = nccl_settle(comm);
    pthread_mutex_unlock(&comm->ctx->lock);
    return err == -EAGAIN ? 0 : err;
}

int nccl_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    *bytes = comm->wire;
    return 0;
}
