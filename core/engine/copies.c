/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a rank copies between the host's memory and the device, while the other ranks of its
 * host do so, too: measured once, for some tens of milliseconds, and kept (base/kept.h) by a
 * fingerprint of the machine, the device and the ranks.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/kept.h"
#include "base/status.h"
#include "engine/runtime.h"

#define BYTES ZERO__COPIES_BYTES
#define LEAST_COPIES 3
#define LEAST_NS (ZERO_SECOND / 50)

static uint64_t fingerprint(const struct zero_runtime *rt)
{
    struct utsname u;
    char text[300];

    memset(&u, 0, sizeof u);
    uname(&u);
    int n = snprintf(text, sizeof text, "%s %s %s %d %u", u.nodename, u.machine, rt->device_name,
                     rt->local_ranks, (unsigned)zero__option_int(rt->options, ZERO__OPT_THREADS));
    return XXH3_64bits(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static int copy(struct zero_runtime *rt, void *to, const void *from)
{
    void *stream = rt->lanes[ZERO__Q_LOAD].stream;
    int err = rt->dev_ops.copy(rt->dev, to, from, BYTES, stream);

    return err ? err : rt->dev_ops.stream_sync(rt->dev, stream, rt->timeout_ns);
}

/* There and back in turn. */
static int copies_time(struct zero_runtime *rt, void *device, void *host, double *rate)
{
    int err = copy(rt, device, host); /* the first one finds no pages */
    int64_t began = zero__now_ns(), took = 0;
    uint32_t n = 0;

    while (!err && (n < LEAST_COPIES || took < LEAST_NS)) {
        err = n % 2 ? copy(rt, device, host) : copy(rt, host, device);
        took = zero__now_ns() - began;
        n++;
    }
    if (!err)
        *rate = (double)n * (double)BYTES / ((double)took / 1e9);
    return err;
}

static int measure(struct zero_runtime *rt, double *rate)
{
    const uint32_t mem = zero__device_is_host(rt) ? rt->device_mem : ZERO_MEM_PINNED;
    void *device = NULL, *host = NULL;
    int err = rt->dev_ops.alloc(rt->dev, BYTES, rt->device_mem, &device);

    if (!err)
        err = rt->dev_ops.alloc(rt->dev, BYTES, mem, &host);
    if (!err && zero__device_is_host(rt))
        memset(host, 1, BYTES);
    if (!err)
        err = copies_time(rt, device, host, rate);
    if (host)
        rt->dev_ops.release(rt->dev, host, BYTES, mem);
    if (device)
        rt->dev_ops.release(rt->dev, device, BYTES, rt->device_mem);
    return err;
}

/* The least of all ranks'; 0 where one has none. */
static int least(struct zero_runtime *rt, double *rate)
{
    double *all = calloc((size_t)rt->ranks, sizeof *all);
    int err = all ? zero__job_allgather(rt->job, rate, sizeof *rate, all)
                  : zero__fail(-ENOMEM, "no memory for the speeds of %d ranks", rt->ranks);

    for (int i = 0; i < rt->ranks && !err; i++)
        *rate = fmin(*rate, all[i]);
    free(all);
    return err;
}

int zero__copies_find(struct zero_runtime *rt, double *rate)
{
    const uint64_t key = fingerprint(rt);
    double x = 0;

    zero__kept_find("copies", key, &x, 1);
    int err = least(rt, &x);
    if (!err && x <= 0 && zero__option_int(rt->options, ZERO__OPT_OFFLOAD_MEASURE)) {
        int own = measure(rt, &x);
        if (own) /* no room for it: a choice can be made without */
            zero__log(&rt->log, ZERO_LOG_INFO, "engine", "copies of the host are not measured: %s",
                      zero__error_text());
        x = own ? 0 : x;
        err = least(rt, &x);
        if (!err && x > 0 && zero__job_local_rank(rt->job) == 0)
            zero__kept_note("copies", key, &x, 1);
        if (!err && x > 0 && rt->rank == 0)
            zero__log(&rt->log, ZERO_LOG_INFO, "engine",
                      "copies between device and host: %.3g GB/s a rank", x / 1e9);
    }
    if (!err)
        *rate = x;
    return err;
}
