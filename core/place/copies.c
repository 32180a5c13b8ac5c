/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a rank copies between the host's memory and the device, while the other ranks of its
 * host do so, too: measured once, for some tens of milliseconds, and kept (base/kept.h) by a
 * fingerprint of the machine, the device and the ranks.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/kept.h"
#include "base/status.h"
#include "machine/clock.h"
#include "place/placer.h"
#include "place/room.h"

#define MOST_BYTES (UINT64_C(16) << 20) /* of a copy, on the device and in the host's memory */
#define LEAST_BYTES (UINT64_C(1) << 20) /* less of them tells of something else */
#define LEAST_COPIES 3
#define LEAST_NS (ZERO_SECOND / 50)

/* Bytes of a copy: a power of two, so that jobs under other limits find the kept figure. */
static uint64_t piece_bytes(uint64_t room)
{
    uint64_t bytes = MOST_BYTES;

    while (bytes > room && bytes > LEAST_BYTES)
        bytes /= 2;
    return bytes;
}

static uint64_t fingerprint(const struct zero__placer *placer, uint64_t bytes)
{
    return zero__kept_key("%s %d %u %u", placer->site->device_name, placer->site->local_ranks,
                          (unsigned)zero__option_int(placer->site->options, ZERO__OPT_THREADS),
                          (unsigned)bytes);
}

static int copy(struct zero__placer *placer, void *to, const void *from, uint64_t bytes)
{
    void *stream = zero__lane_stream(placer->run, ZERO__Q_LOAD);
    int err = placer->site->dev_ops.copy(placer->site->dev, to, from, bytes, stream);

    return err ? err
               : placer->site->dev_ops.stream_sync(placer->site->dev, stream,
                                                   placer->site->timeout_ns);
}

/* There and back in turn. */
static int copies_time(struct zero__placer *placer, void *device, void *host, uint64_t bytes,
                       double *rate)
{
    int err = copy(placer, device, host, bytes); /* the first one finds no pages */
    int64_t began = zero__now_ns(), took = 0;
    uint32_t n = 0;

    while (!err && (n < LEAST_COPIES || took < LEAST_NS)) {
        err = n % 2 ? copy(placer, device, host, bytes) : copy(placer, host, device, bytes);
        took = zero__now_ns() - began;
        n++;
    }
    if (!err)
        *rate = (double)n * (double)bytes / ((double)took / 1e9);
    return err;
}

static int measure(struct zero__placer *placer, uint64_t bytes, double *rate)
{
    const uint32_t mem =
        zero__device_is_host(placer->site) ? placer->site->device_mem : ZERO_MEM_PINNED;
    void *device = NULL, *host = NULL;
    int err =
        placer->site->dev_ops.alloc(placer->site->dev, bytes, placer->site->device_mem, &device);

    if (!err)
        err = placer->site->dev_ops.alloc(placer->site->dev, bytes, mem, &host);
    if (!err && zero__device_is_host(placer->site))
        memset(host, 1, bytes);
    if (!err)
        err = copies_time(placer, device, host, bytes, rate);
    if (err == -ETIMEDOUT) /* what is under way may still end in the memory: that stays */
        return err;
    if (host)
        placer->site->dev_ops.release(placer->site->dev, host, bytes, mem);
    if (device)
        placer->site->dev_ops.release(placer->site->dev, device, bytes, placer->site->device_mem);
    return err;
}

int zero__copies_find(struct zero__placer *placer, const struct zero__room *room, double *rate)
{
    const uint64_t lent =
        zero__least(zero__room_lends(room, ZERO__T_CPU), zero__room_lends(room, ZERO__T_DEVICE));
    const uint64_t bytes = piece_bytes(lent), key = fingerprint(placer, bytes);
    double x = 0, hosts;

    zero__kept_find("copies", key, &x, 1);
    int err = zero__figures_least(placer, 1, &x, &hosts);
    if (!err && x <= 0 && zero__option_int(placer->site->options, ZERO__OPT_OFFLOAD_MEASURE)) {
        int own = bytes <= lent ? measure(placer, bytes, &x)
                                : zero__fail(-ENOMEM, "there is no memory to spare for it");
        if (own) /* no room for it: a choice can be made without */
            zero__log(&placer->site->log, ZERO_LOG_INFO, "engine",
                      "copies of the host are not measured: %s", zero__error_text());
        x = own ? 0 : x;
        err = zero__figures_least(placer, 1, &x, &hosts);
        if (!err && hosts > 0 && zero__job_local_rank(placer->site->job) == 0)
            zero__kept_note("copies", key, &hosts, 1);
        if (!err && x > 0 && placer->site->rank == 0)
            zero__log(&placer->site->log, ZERO_LOG_INFO, "engine",
                      "copies between device and host: %.3g GB/s a rank", x / 1e9);
    }
    if (!err)
        *rate = x;
    return err;
}
