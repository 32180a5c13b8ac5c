/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the libraries, the device's CUDA context, meeting the other ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/oob.h"
#include "../common/open.h"
#include "../common/param.h"
#include "machine/heard.h"
#include "machine/thread.h"
#include "nccl.h"

/* What all ranks must have alike. */
struct likeness {
    uint64_t staging_bytes;
    int64_t version;
};

int nccl_enter(struct zero_comm_ctx *ctx)
{
    int r = ctx->cuda.CtxPushCurrent(ctx->context);

    if (r != CUDA_OK)
        return cuda_fail(&ctx->voice, &ctx->cuda, r, "the device's context cannot be made current");
    pthread_mutex_lock(&ctx->lock);
    return 0;
}

void nccl_leave(struct zero_comm_ctx *ctx)
{
    cuda_context old;

    pthread_mutex_unlock(&ctx->lock);
    ctx->cuda.CtxPopCurrent(&old);
}

/* What the others call and how they fare. */
static int meeting_judge(struct zero_comm_ctx *ctx, const char *call, int err)
{
    struct nccl_meeting *all = ctx->meetings;

    for (int32_t p = 0; p < ctx->ranks; p++) {
        all[p].call[sizeof all[p].call - 1] = 0;
        if (strcmp(all[p].call, call) != 0)
            return zero__say(&ctx->voice, -EPROTO, "rank %d calls %s, and rank %d %s", ctx->rank,
                             call, p, all[p].call);
    }
    for (int32_t p = 0; p < ctx->ranks && !err; p++)
        if (all[p].err) {
            all[p].why[sizeof all[p].why - 1] = 0;
            return zero__say(&ctx->voice, zero__errno_heard(all[p].err, -EPROTO),
                             "%s failed on rank %d%s%s", call, p,
                             *all[p].why ? ": " : ", which says why", all[p].why);
        }
    return err;
}

int nccl_meet(struct zero_comm_ctx *ctx, const char *call, int err, const void *mine,
              uint32_t bytes)
{
    struct nccl_meeting m = {.err = err};
    int failed;

    strncpy(m.call, call, sizeof m.call - 1);
    if (err)
        snprintf(m.why, sizeof m.why, "%.299s", ctx->said);
    if (bytes)
        memcpy(m.words, mine, bytes);
    failed = zero__oob_gather(&ctx->voice, ctx->oob, nccl_until(ctx), call, &m, sizeof m,
                              ctx->meetings);
    if (!failed)
        failed = meeting_judge(ctx, call, err);
    return err ? err : failed;
}

void nccl_heard(const struct zero_comm_ctx *ctx, int32_t p, void *words, uint32_t bytes)
{
    memcpy(words, ctx->meetings[p].words, bytes);
}

static int device_take(const struct zero_comm_open *params, struct zero_comm_ctx *ctx)
{
    struct zero_device_info info = {.size = sizeof info};
    int err;

    ctx->ops = zero__open_device(params, &ctx->dev);
    if (!ctx->ops)
        return zero__say(&ctx->voice, -ENODEV,
                         "NCCL works on the memory of a GPU, and no device was given: choose "
                         "another transport with ZERO_COMM");
    err = ctx->ops->info(ctx->dev, &info);
    if (err)
        return err;
    if (info.mem != NCCL_MEMORY)
        return zero__say(&ctx->voice, -ENOTSUP,
                         "NCCL works on the memory of a GPU, and the device that was chosen has "
                         "another: choose another transport with ZERO_COMM");
    return 0;
}

/* The device's CUDA context is that of a stream of it. */
static int device_find(struct zero_comm_ctx *ctx)
{
    cuda_context current;
    void *stream;
    int err = ctx->ops->stream_create(ctx->dev, NCCL_NAME, &stream), r;

    if (err)
        return err;
    r = ctx->cuda.StreamGetCtx(stream, &current);
    ctx->ops->stream_destroy(ctx->dev, stream);
    if (r == CUDA_OK)
        r = ctx->cuda.CtxPushCurrent(current);
    if (r != CUDA_OK)
        return cuda_fail(&ctx->voice, &ctx->cuda, r, "the device's stream is none of CUDA's");
    r = ctx->cuda.CtxGetDevice(&ctx->device);
    ctx->cuda.CtxPopCurrent(&current);
    if (r == CUDA_OK)
        r = ctx->cuda.DevicePrimaryCtxRetain(&ctx->context, ctx->device);
    if (r != CUDA_OK)
        return cuda_fail(&ctx->voice, &ctx->cuda, r, "the device's primary context cannot be had");
    ctx->retained = true;
    return 0;
}

int nccl_settings(const struct zero__voice *v, bool *registers, uint64_t *staging_bytes)
{
    uint64_t bytes;
    int wrong = zero__param_flag(v, "nccl_register", "1",
                                 "Register the memory of the plan with NCCL where it can (2.19); "
                                 "0: do not",
                                 registers);
    int err = zero__param_number(v, "nccl_staging", "16777216", 65536, UINT64_C(1) << 40,
                                 "Bytes of each of the two buffers of a communicator through "
                                 "which sums of bf16 and fp16 go",
                                 &bytes);

    if (err)
        return err;
    *staging_bytes = bytes / 64 * 64;
    return wrong;
}

/* Every call would wait for the peers, with the lock that an abort needs. */
static int blocking_refuse(const struct zero__voice *v)
{
    const char *blocks = getenv("NCCL_COMM_BLOCKING");

    if (!blocks || strtoll(blocks, NULL, 0) != 1)
        return 0;
    return zero__say(v, -EINVAL, "NCCL_COMM_BLOCKING is %.20s in the environment, with which calls "
                     "of NCCL wait for other ranks and nothing can end them: unset it", blocks);
}

/* What this rank needs, without the others. */
static int prepare(const struct zero_comm_open *params, struct zero_comm_ctx *ctx)
{
    int err = nccl_settings(&ctx->voice, &ctx->registers, &ctx->staging_bytes);

    if (!err)
        err = blocking_refuse(&ctx->voice);
    if (!err)
        err = cuda_load(params->host, &ctx->cuda);
    if (!err)
        err = nccl_load(params->host, &ctx->nccl);
    if (!err)
        err = device_take(params, ctx);
    if (!err)
        err = device_find(ctx);
    return err ? err : nccl_ender_start(ctx);
}

/* Ranks that cut sums into other pieces would wait for each other for ever. */
static int compare(struct zero_comm_ctx *ctx)
{
    struct likeness first, other;
    char theirs[40], ours[40];

    nccl_heard(ctx, 0, &first, sizeof first);
    for (int32_t p = 1; p < ctx->ranks; p++) {
        nccl_heard(ctx, p, &other, sizeof other);
        if (other.staging_bytes != first.staging_bytes)
            return zero__say(&ctx->voice, -EPROTO,
                             "ZERO_NCCL_STAGING is %llu on rank %d and %llu on rank 0: give all "
                             "ranks the same",
                             (unsigned long long)other.staging_bytes, p,
                             (unsigned long long)first.staging_bytes);
        if (other.version != first.version) {
            nccl_version_print((int)other.version, theirs);
            nccl_version_print((int)first.version, ours);
            return zero__say(&ctx->voice, -EPROTO,
                             "NCCL is %s on rank %d and %s on rank 0: install the same on all "
                             "hosts (libnccl2), or name one with ZERO_NCCL_LIBRARY",
                             theirs, p, ours);
        }
    }
    return 0;
}

static int join(struct zero_comm_ctx *ctx, int err)
{
    struct likeness mine = {ctx->staging_bytes, ctx->nccl.version};
    char text[40];

    err = nccl_meet(ctx, "open", err, &mine, sizeof mine);
    if (!err)
        err = compare(ctx);
    if (err || ctx->rank || ctx->nccl.version >= NCCL_ABORTS)
        return err;
    nccl_version_print(ctx->nccl.version, text);
    zero__tell(&ctx->voice, ZERO_LOG_WARN,
               "NCCL %s trains, but when a rank ends early, the others may hang until they are "
               "killed: install 2.27.3 or later (libnccl2)", text);
    return 0;
}

static void context_free(struct zero_comm_ctx *ctx)
{
    if (ctx->retained)
        ctx->cuda.DevicePrimaryCtxRelease(ctx->device);
    pthread_cond_destroy(&ctx->work);
    pthread_cond_destroy(&ctx->moved);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx->meetings);
    free(ctx->members);
    free(ctx);
}

/* NULL: there is no memory for it. */
static struct zero_comm_ctx *context_new(const struct zero_comm_open *params)
{
    struct zero_comm_ctx *ctx = calloc(1, sizeof *ctx);

    if (!ctx)
        return NULL;
    ctx->voice = (struct zero__voice){params->host, NCCL_NAME};
    ctx->oob = params->oob;
    ctx->rank = params->oob->rank;
    ctx->ranks = params->oob->ranks;
    ctx->timeout_ns = params->timeout_ns;
    pthread_mutex_init(&ctx->lock, NULL);
    zero__cond_init(&ctx->work);
    zero__cond_init(&ctx->moved);
    ctx->meetings = calloc((size_t)ctx->ranks, sizeof *ctx->meetings);
    ctx->members = calloc((size_t)ctx->ranks, sizeof *ctx->members);
    if (ctx->meetings && ctx->members)
        return ctx;
    context_free(ctx);
    return NULL;
}

int nccl_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero__voice v = {params->host, NCCL_NAME};
    const int64_t until = zero__deadline_ns(params->timeout_ns);
    struct zero_comm_ctx *ctx;
    int err = zero__oob_check(&v, params->oob, NCCL_RANKS);

    if (err)
        return err;
    ctx = context_new(params);
    if (!ctx)
        err = zero__say(&v, -ENOMEM, "no memory for a context of %d ranks", params->oob->ranks);
    /* Who has no memory says so here: the others would wait for it in join(). */
    err = zero__oob_agree(&v, params->oob, until, "open", err);
    if (!err) {
        ctx->until = until;
        err = join(ctx, prepare(params, ctx));
        ctx->until = 0;
    }
    if (!err) {
        *out = ctx;
        return 0;
    }
    if (ctx && nccl_ender_stop(ctx)) /* else a thread still has it */
        context_free(ctx);
    return err;
}

int nccl_close(struct zero_comm_ctx *ctx)
{
    while (ctx->comms)
        nccl_comm_close(ctx->comms);
    while (ctx->mrs)
        nccl_unreg(ctx, ctx->mrs);
    if (!nccl_ender_stop(ctx))
        return zero__say(&ctx->voice, -ETIMEDOUT,
                         "close: NCCL does not end a communicator within %g s; what it holds is "
                         "left to the end of the process",
                         (double)ctx->timeout_ns * 1e-9);
    context_free(ctx);
    return 0;
}

int nccl_wake(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->woken, 1);
    zero__bell_ring(&ctx->bell);
    return 0;
}
