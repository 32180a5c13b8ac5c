/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device: whether the ranks can share it, and segments of it. What devices and drivers
 * allow in which container is not asked but tried, when a context is opened: a small piece of
 * memory goes the whole way to every peer. Where that fails on one rank, no rank takes such memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/open.h"
#include "../common/param.h"
#include "shm.h"

#define TRIAL_BYTES 4096u

int zero__shm_device_wish(const struct zero__voice *v, bool *wanted)
{
    return zero__param_flag(v, "shm_device", "1",
                            "Share the memory of devices among ranks where they can; 0: "
                            "collectives go through memory of the host",
                            wanted);
}

/* Why the device's memory is not shared; NULL: maybe it can be. */
static const char *obstacle(const struct zero_comm_ctx *ctx, const struct zero_device_ops *ops,
                            struct zero_device *dev, struct zero_device_info *info)
{
    *info = (struct zero_device_info){.size = sizeof *info};
    if (!ops)
        return "";
    if (ops->info(dev, info))
        return "it does not say what it is";
    if (info->mem == ZERO_MEM_HOST)
        return ""; /* nothing to be said about */
    if (!ctx->device.wanted)
        return "ZERO_SHM_DEVICE is 0";
    if (!ops->share || !ops->attach || !ops->detach)
        return "the device plugin shares no memory";
    if (!(info->kernels & 1u << ZERO_KERNEL_SUM))
        return "the device has no kernel for sums in the order of the ranks";
    if (ctx->ranks > (int32_t)ZERO_SUM_SOURCES)
        return "there are more ranks than a kernel adds up";
    return NULL;
}

void zero__shm_device_find(struct zero_comm_ctx *ctx, const struct zero_comm_open *params,
                           struct shm_correspondent *self)
{
    struct shm_device *d = &ctx->device;
    struct zero_device_info info = {0};
    struct zero_device *dev;
    const struct zero_device_ops *ops = zero__open_device(params, &dev);
    const char *why = obstacle(ctx, ops, dev, &info);

    self->pid = getpid();
    if (!why) {
        d->ranks = calloc((size_t)ctx->ranks, sizeof *d->ranks);
        if (!d->ranks || zero__parcels_open(&ctx->voice, &d->socket, self))
            why = "this rank has no socket to hand over what finds memory of a device";
    }
    if (!why) {
        d->ops = ops;
        d->dev = dev;
        d->mem = info.mem;
    } else if (*why) {
        zero__tell(&ctx->voice, ZERO_LOG_INFO, "collectives go through memory of the host: %s",
                   why);
    }
}

/* After these words have been said to all, they may know it or not. */
static bool is_over(int err)
{
    return err == -ETIMEDOUT || err == -ECANCELED || err == -ECONNRESET;
}

int zero__shm_device_try(struct zero_comm_ctx *ctx)
{
    struct shm_notice mine = {.call = SHM_CALL_OPEN};
    struct shm_device *d = &ctx->device;
    struct zero_mr *mr = NULL;
    void *base;
    int err;

    d->takes = true;
    mine.status = zero__shm_alloc(ctx, TRIAL_BYTES, d->mem, &base, &mr);
    err = zero__board_gather(ctx, &ctx->table, &mine, ctx->notices);
    if (!err)
        err = zero__shm_exchange(ctx, mr);
    if (mr)
        zero__shm_unreg(ctx, mr);
    d->takes = !err;
    if (!err)
        zero__tell(&ctx->voice, ZERO_LOG_INFO, "ranks share the memory of their devices");
    else if (!is_over(err) && ctx->rank == 0) /* all have the same to say */
        zero__tell(&ctx->voice, ZERO_LOG_WARN,
                   "collectives go through memory of the host, since a rank cannot share its "
                   "device's or reach that of another (%s); ZERO_SHM_DEVICE=0 spares the trial",
                   strerror(-err));
    return is_over(err) ? err : 0;
}

void zero__shm_device_leave(struct zero_comm_ctx *ctx)
{
    if (ctx->device.socket >= 0)
        close(ctx->device.socket);
    free(ctx->device.ranks);
}

int zero__shm_memory(struct zero_comm_ctx *ctx, uint32_t *mem)
{
    *mem = ZERO_MEM_HOST | (ctx->device.takes ? ctx->device.mem : 0);
    return 0;
}

/* ---- Segments -------------------------------------------------------------------------------- */

/* New memory; with a share, that of the rank which shares it. */
static int segment_make(struct shm_device *d, const struct zero__voice *v, uint64_t bytes,
                        const struct zero_device_share *share, struct shm_segment **segment)
{
    struct shm_segment *s = zero__segment_new(bytes);
    void *base = NULL;
    int err;

    if (!s)
        return zero__say(v, -ENOMEM, "no memory for a segment");
    err = share ? d->ops->attach(d->dev, share, &base)
                : d->ops->alloc(d->dev, bytes, d->mem, &base);
    if (err) {
        free(s);
        return err;
    }
    s->device = d;
    s->attached = share != NULL;
    s->base = base;
    *segment = s;
    return 0;
}

int zero__device_segment_create(struct zero_comm_ctx *ctx, uint64_t bytes,
                                struct shm_segment **segment)
{
    if (bytes == 0 || bytes > INT64_MAX)
        return zero__say(&ctx->voice, -EINVAL, "cannot allocate %llu bytes",
                         (unsigned long long)bytes);
    return segment_make(&ctx->device, &ctx->voice, bytes, NULL, segment);
}

int zero__device_segment_join(struct zero_comm_ctx *ctx, int32_t rank,
                              const struct zero_device_share *share, uint64_t least,
                              struct shm_segment **segment)
{
    if (share->bytes < least || share->bytes > INT64_MAX)
        return zero__say(&ctx->voice, -EPROTO,
                         "rank %d shares %llu bytes of its device's memory, expected %llu", rank,
                         (unsigned long long)share->bytes, (unsigned long long)least);
    return segment_make(&ctx->device, &ctx->voice, share->bytes, share, segment);
}

/* What work of a stream that does not end may touch is left to the device, which knows it, too. */
void zero__device_segment_end(struct shm_segment *s)
{
    struct shm_device *d = s->device;

    if (d->stuck)
        return;
    if (s->attached)
        d->ops->detach(d->dev, s->base);
    else
        d->ops->release(d->dev, s->base, s->bytes, d->mem);
}
