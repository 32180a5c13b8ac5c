/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How NCCL's communicators end: those that failed, and all after an abort, by ncclCommAbort(),
 * which lets go of the streams; others are finalized, which may wait for what peers still read, and
 * destroyed. A thread sees to it, since that may take its time; it takes the handle away from
 * whoever calls with it. An error is noted before, because a stream goes on as soon as NCCL lets go
 * of it.
 *
 * The call that frees a handle has a thread of its own: it waits for all that runs on the device,
 * so for kernels of another communicator, too, which may run until that one is aborted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/list.h"
#include "machine/thread.h"
#include "nccl.h"

#define LOOK_NS 100000000 /* for an abort whose signal went unheard */
#define POLL_NS 1000000
#define GRACE_NS 1000000000 /* for an abort when the time of its entry is over, else memory stays */

int nccl_comm_fail(struct zero_comm *comm, int err, const char *why)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    if (!atomic_load(&comm->err)) {
        snprintf(comm->why, sizeof comm->why, "%s", why);
        atomic_store(&comm->err, err);
    }
    snprintf(ctx->said, sizeof ctx->said, "%s", comm->why);
    pthread_cond_signal(&ctx->work);
    return zero__say(&ctx->voice, atomic_load(&comm->err), "%s", comm->why);
}

/* The lock is held. */
static void end_begin(struct zero_comm *comm, bool broken)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_end *end = comm->end, **at;

    end->nccl = comm->nccl;
    end->broken = broken;
    end->until = zero__deadline_ns(ctx->timeout_ns);
    for (at = &ctx->ends; *at; at = &(*at)->next)
        ;
    *at = end; /* all ranks finalize in the same order */
    comm->nccl = NULL;
    pthread_cond_signal(&ctx->work);
}

static void end_remove(struct zero_comm_ctx *ctx, struct nccl_end *end)
{
    if (end->nccl) /* it was begun */
        ZERO__UNLINK(&ctx->ends, end);
    free(end);
}

/* The handle is the caller's alone, and no lock is held. */
static void end_free(struct nccl_end *end)
{
    struct zero_comm_ctx *ctx = end->ctx;
    int r = end->broken ? ctx->nccl.CommAbort(end->nccl) : ctx->nccl.CommDestroy(end->nccl);

    if (r != NCCL_OK && r != NCCL_IN_PROGRESS)
        zero__tell(&ctx->voice, ZERO_LOG_WARN, "a communicator of NCCL's does not end well: %s",
                   ctx->nccl.GetErrorString(r));
    pthread_mutex_lock(&ctx->lock);
    end->returned = true;
    pthread_cond_signal(&ctx->work);
    pthread_mutex_unlock(&ctx->lock);
}

static void *end_main(void *arg)
{
    struct nccl_end *end = arg;
    struct zero_comm_ctx *ctx = end->ctx;
    int pushed = ctx->cuda.CtxPushCurrent(ctx->context); /* without, it is NCCL's own affair */
    cuda_context old;

    end_free(end);
    if (pushed == CUDA_OK)
        ctx->cuda.CtxPopCurrent(&old);
    return NULL;
}

/* Without a thread to be had it is done here, and others wait. */
static void end_call(struct zero_comm_ctx *ctx, struct nccl_end *end)
{
    end->called = true;
    end->threaded = !zero__thread_create(&end->thread, NULL, end_main, end);
    if (end->threaded)
        return;
    pthread_mutex_unlock(&ctx->lock);
    end_free(end);
    pthread_mutex_lock(&ctx->lock);
}

static void end_finish(struct zero_comm_ctx *ctx, struct nccl_end *end)
{
    if (end->threaded) { /* it does no more, but a driver may have something to clear up in it */
        pthread_mutex_unlock(&ctx->lock);
        pthread_join(end->thread, NULL);
        pthread_mutex_lock(&ctx->lock);
    }
    end->over = true;
    if (end->orphan)
        end_remove(ctx, end);
    pthread_cond_broadcast(&ctx->moved);
    zero__bell_ring(&ctx->bell);
}

/* Before 2.27 two that are finalized at once by a thread spoil each other. */
static bool is_another_finalizing(const struct zero_comm_ctx *ctx, const struct nccl_end *end)
{
    for (const struct nccl_end *e = ctx->ends; e; e = e->next)
        if (e != end && e->finalizing && !e->over)
            return true;
    return false;
}

/* May it be destroyed now, or aborted? Finalizing goes on by itself. */
static bool is_final(struct zero_comm_ctx *ctx, struct nccl_end *end)
{
    int r = NCCL_OK, state = NCCL_OK;

    if (!end->finalizing && is_another_finalizing(ctx, end)) {
        end->broken = zero__now_ns() >= end->until;
        return end->broken;
    }
    if (!end->finalizing) {
        r = ctx->nccl.CommFinalize(end->nccl);
        end->finalizing = true;
    }
    if (r == NCCL_OK || r == NCCL_IN_PROGRESS)
        r = ctx->nccl.CommGetAsyncError(end->nccl, &state);
    r = r == NCCL_OK ? state : r;
    if (r == NCCL_IN_PROGRESS && zero__now_ns() < end->until)
        return false;
    if (r != NCCL_OK)
        end->broken = true;
    return true;
}

/* A step for one handle: 1 something was done, 0 none is left, -1 NCCL is at work for some. */
static int ender_step(struct zero_comm_ctx *ctx)
{
    bool all = atomic_load(&ctx->aborted) != 0;
    int left = 0;

    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        if (comm->nccl && (all || atomic_load(&comm->err)))
            end_begin(comm, true);
    for (struct nccl_end *end = ctx->ends; end; end = end->next) {
        if (end->over)
            continue;
        left = -1;
        if (end->called)
            continue;
        end->broken = end->broken || all;
        if (end->broken || is_final(ctx, end)) {
            end_call(ctx, end);
            return 1;
        }
    }
    /* When all is called that may be. */
    for (struct nccl_end *end = ctx->ends; end; end = end->next)
        if (end->returned && !end->over) {
            end_finish(ctx, end);
            return 1;
        }
    return left;
}

static void *ender_main(void *arg)
{
    struct zero_comm_ctx *ctx = arg;
    int pushed = -1;
    cuda_context old;

    pthread_mutex_lock(&ctx->lock);
    for (int done = 1; done || !ctx->closing;) {
        if (pushed != CUDA_OK) /* what NCCL makes of it without is its own affair */
            pushed = ctx->cuda.CtxPushCurrent(ctx->context);
        done = ender_step(ctx);
        if (done > 0 || (!done && ctx->closing))
            continue;
        int64_t until = zero__deadline_ns(done ? POLL_NS : LOOK_NS);
        zero__cond_until(&ctx->work, &ctx->lock, until);
        done = 1; /* there may be more before it closes */
    }
    ctx->ender_left = true;
    pthread_cond_broadcast(&ctx->moved);
    pthread_mutex_unlock(&ctx->lock);
    if (pushed == CUDA_OK)
        ctx->cuda.CtxPopCurrent(&old);
    return NULL;
}

int nccl_ender_start(struct zero_comm_ctx *ctx)
{
    int err = zero__thread_create(&ctx->ender, NULL, ender_main, ctx);

    if (err)
        return zero__say(&ctx->voice, -err, "cannot start a thread: %s" ZERO__THREAD_LIMITS,
                         strerror(err));
    ctx->ender_runs = true;
    return 0;
}

/* Waits for what the thread tells, until it is so or the time is over. The lock is held. */
static bool wait_until(struct zero_comm_ctx *ctx, const bool *over, int64_t until)
{
    while (!*over && zero__now_ns() < until)
        zero__cond_until(&ctx->moved, &ctx->lock, until);
    return *over;
}

/* So long the end of a communicator is waited for. */
static int64_t patience(const struct zero_comm_ctx *ctx)
{
    int64_t least = ctx->until ? zero__deadline_ns(GRACE_NS) : 0, until = nccl_until(ctx);

    return until > least ? until : least;
}

bool nccl_ender_stop(struct zero_comm_ctx *ctx)
{
    bool left;

    if (!ctx->ender_runs)
        return true;
    pthread_mutex_lock(&ctx->lock);
    ctx->closing = true;
    pthread_cond_signal(&ctx->work);
    /* What is finalized may take that long, what is aborted then a while more. */
    left = wait_until(ctx, &ctx->ender_left,
                      zero__deadline_ns(ctx->timeout_ns + ctx->timeout_ns / 2));
    pthread_mutex_unlock(&ctx->lock);
    if (left)
        pthread_join(ctx->ender, NULL);
    else
        pthread_detach(ctx->ender);
    return left;
}

bool nccl_end_wait(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    bool over;

    if (!atomic_load(&comm->err) && !atomic_load(&ctx->aborted))
        return true;
    pthread_mutex_lock(&ctx->lock);
    pthread_cond_signal(&ctx->work);
    over = wait_until(ctx, &comm->end->over, patience(ctx));
    pthread_mutex_unlock(&ctx->lock);
    return over;
}

bool nccl_comm_end(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_end *end = comm->end;
    bool good = true, idle = !comm->launching && !comm->work.active &&
                             comm->posted == comm->completed && !atomic_load(&comm->err) &&
                             !atomic_load(&ctx->aborted);

    pthread_mutex_lock(&ctx->lock);
    ZERO__UNLINK(&ctx->comms, comm);
    if (comm->nccl)
        end_begin(comm, !idle);
    if (!end->nccl) /* never made */
        end->over = true;
    if (end->broken) /* its streams may still run */
        good = wait_until(ctx, &end->over, patience(ctx));
    if (end->over)
        end_remove(ctx, end);
    else
        end->orphan = true;
    pthread_mutex_unlock(&ctx->lock);
    return good;
}

/* No lock: whoever holds it may wait for room in a stream. A signal that goes unheard is late. */
int nccl_abort(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->aborted, 1);
    pthread_cond_signal(&ctx->work);
    zero__bell_ring(&ctx->bell);
    return 0;
}
