/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device that trains: NAME or NAME:NUMBER of ZERO_DEVICE, where NAME is that of a plugin or the
 * path of its file. Without a number a rank takes that of its place on the host, so that ranks and
 * devices of a host come in pairs; the host itself is number 0 for all ranks. One number may be
 * another device on each rank, where each sees one of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/device_name.h"
#include "base/status.h"
#include "device/host.h"
#include "engine/runtime.h"

/* Does what the runtime does with a device of its own memory go together with the rest? */
static int check(struct zero_runtime *rt)
{
    struct zero_device_info info = {.size = sizeof info};
    int err = rt->dev_ops.info(rt->dev, &info);

    if (err)
        return err;
    if (info.mem != ZERO_MEM_HOST && info.mem != ZERO_MEM_CUDA)
        return zero__fail(-ENOTSUP, "its memory is of kind %u, which is unknown", info.mem);
    for (uint32_t k = ZERO_KERNEL_FILL; k <= ZERO_KERNEL_TOTAL; k++)
        if (!(info.kernels & 1u << k))
            return zero__fail(-ENOTSUP, "it lacks kernel %u of zero/device.h, which training needs",
                              k);
    rt->device_mem = info.mem;
    rt->device_kernels = info.kernels;
    memcpy(rt->device_pci, info.pci, sizeof rt->device_pci);
    rt->device_pci[sizeof rt->device_pci - 1] = 0;
    if (zero__device_is_host(rt))
        return 0;
    zero__log(&rt->log, ZERO_LOG_INFO, "engine", "device %s: %s", rt->device_name, info.note);
    return zero__reach_open(rt);
}

/*
 * States in the host's memory are the host's to update where the device has memory of its own: over
 * a bus it would read and write 28 bytes a parameter, where gradients and parameters are 6.
 */
static int host_open(struct zero_runtime *rt, const struct zero_device_open *of_device)
{
    struct zero_device_open params = *of_device;

    params.index = 0;
    return zero__device_is_host(rt) ? 0 : zero__host_device_ops.open(&params, &rt->host);
}

/* Where a rank's device is. */
struct place {
    int32_t host;
    char pci[16];
};

/*
 * Collective. How many ranks have this rank's device; where it does not say where it is, all of the
 * host that may have it.
 */
static int sharers_count(struct zero_runtime *rt, int may_share)
{
    struct place mine = {.host = zero__job_host(rt->job)};
    struct place *all;
    uint32_t n = 0;
    int err;

    memcpy(mine.pci, rt->device_pci, sizeof mine.pci);
    all = zero__ranks_ask(rt, &mine, sizeof mine, &err);
    for (int r = 0; r < rt->ranks && !err; r++)
        n += all[r].host == mine.host && !strncmp(all[r].pci, mine.pci, sizeof mine.pci);
    free(all);
    if (!err)
        rt->device_sharers = *mine.pci ? n : may_share ? (uint32_t)rt->local_ranks : 1;
    return err;
}

/* NULL: none. */
static struct zero_device *device_of(const struct zero_runtime *rt, uint32_t queue)
{
    if (queue != ZERO__Q_HOST && queue != ZERO__Q_RETURN)
        return rt->dev;
    if (rt->host)
        return queue == ZERO__Q_HOST ? rt->host : rt->dev;
    return rt->test_host_updates ? rt->dev : NULL;
}

static int streams_open(struct zero_runtime *rt)
{
    int err = zero__track_create(rt);

    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++) {
        struct lane *l = &rt->lanes[q];
        l->ops = q == ZERO__Q_HOST ? &zero__host_device_ops : &rt->dev_ops;
        l->dev = device_of(rt, q);
        if (zero__queue_is_stream(q) && l->dev)
            err = l->ops->stream_create(l->dev, zero__queue_name(q), &l->stream);
    }
    return err;
}

int zero__device_open(struct zero_runtime *rt)
{
    const char *text = zero__option_text(rt->options, ZERO__OPT_DEVICE);
    struct zero__plugin *plugin;
    char name[4096];
    int32_t index;
    int err = zero__device_name_split(text, name, sizeof name, &index);

    if (!err)
        err = zero__loader_load(rt->loader, ZERO_IFACE_DEVICE, name, &plugin);
    if (!err)
        err = zero__threads_choose(rt);
    if (err)
        return err;
    rt->dev_ops = *zero__plugin_device(plugin);
    int is_host = rt->dev_ops.open == zero__host_device_ops.open;
    const int may_share = is_host || index >= 0;
    if (index < 0)
        index = is_host ? 0 : zero__job_local_rank(rt->job);
    snprintf(rt->device_name, sizeof rt->device_name, "%.60s:%d", zero__plugin_name(plugin), index);
    struct zero_device_open params = {.size = sizeof params,
                                      .host = zero__loader_host(rt->loader),
                                      .index = index,
                                      .threads = (uint32_t)zero__option_int(
                                          rt->options, ZERO__OPT_THREADS),
                                      .timeout_ns = rt->timeout_ns + ZERO__GRACE_NS,
                                      .notify = zero__progress_wake,
                                      .notify_arg = rt};
    err = rt->dev_ops.open(&params, &rt->dev);
    if (!err)
        err = check(rt);
    if (!err)
        err = host_open(rt, &params);
    if (err)
        return zero__while(err, "device %s", text);
    err = sharers_count(rt, may_share);
    return err ? err : streams_open(rt);
}
