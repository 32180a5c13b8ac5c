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
    int err = rt->site.dev_ops.info(rt->site.dev, &info);

    if (err)
        return err;
    if (info.mem != ZERO_MEM_HOST && info.mem != ZERO_MEM_CUDA)
        return zero__fail(-ENOTSUP, "its memory is of kind %u, which is unknown", info.mem);
    for (uint32_t k = ZERO_KERNEL_FILL; k <= ZERO_KERNEL_TOTAL; k++)
        if (!(info.kernels & 1u << k))
            return zero__fail(-ENOTSUP, "it lacks kernel %u of zero/device.h, which training needs",
                              k);
    rt->site.device_mem = info.mem;
    rt->site.device_kernels = info.kernels;
    memcpy(rt->site.device_pci, info.pci, sizeof rt->site.device_pci);
    rt->site.device_pci[sizeof rt->site.device_pci - 1] = 0;
    if (zero__device_is_host(&rt->site))
        return 0;
    zero__log(&rt->site.log, ZERO_LOG_INFO, "engine", "device %s: %s", rt->site.device_name,
              info.note);
    return zero__reach_open(rt->run);
}

/*
 * States in the host's memory are the host's to update where the device has memory of its own: over
 * a bus it would read and write 28 bytes a parameter, where gradients and parameters are 6.
 */
static int host_open(struct zero_runtime *rt, const struct zero_device_open *of_device)
{
    struct zero_device_open params = *of_device;

    params.index = 0;
    return zero__device_is_host(&rt->site) ? 0
                                           : zero__host_device_ops.open(&params, &rt->site.host);
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
    struct place mine = {.host = zero__job_host(rt->site.job)};
    struct place *all;
    uint32_t n = 0;
    int err;

    memcpy(mine.pci, rt->site.device_pci, sizeof mine.pci);
    all = zero__ranks_ask(&rt->site, &mine, sizeof mine, &err);
    for (int r = 0; r < rt->site.ranks && !err; r++)
        n += all[r].host == mine.host && !strncmp(all[r].pci, mine.pci, sizeof mine.pci);
    free(all);
    if (!err)
        rt->site.device_sharers = *mine.pci ? n : may_share ? (uint32_t)rt->site.local_ranks : 1;
    return err;
}

int zero__device_open(struct zero_runtime *rt)
{
    const char *text = zero__option_text(rt->site.options, ZERO__OPT_DEVICE);
    struct zero__plugin *plugin;
    char name[4096];
    int32_t index;
    int err = zero__device_name_split(text, name, sizeof name, &index);

    if (!err)
        err = zero__loader_load(rt->site.loader, ZERO_IFACE_DEVICE, name, &plugin);
    if (!err)
        err = zero__threads_choose(rt);
    if (err)
        return err;
    rt->site.dev_ops = *zero__plugin_device(plugin);
    int is_host = rt->site.dev_ops.open == zero__host_device_ops.open;
    const int may_share = is_host || index >= 0;
    if (index < 0)
        index = is_host ? 0 : zero__job_local_rank(rt->site.job);
    snprintf(rt->site.device_name, sizeof rt->site.device_name, "%.60s:%d",
             zero__plugin_name(plugin), index);
    struct zero_device_open params = {
        .size = sizeof params,
        .host = zero__loader_host(rt->site.loader),
        .index = index,
        .threads = (uint32_t)zero__option_int(rt->site.options, ZERO__OPT_THREADS),
        .timeout_ns = rt->site.timeout_ns + ZERO__GRACE_NS,
        .notify = zero__progress_wake,
        .notify_arg = rt->run};
    err = rt->site.dev_ops.open(&params, &rt->site.dev);
    if (!err)
        err = check(rt);
    if (!err)
        err = host_open(rt, &params);
    if (err)
        return zero__while(err, "device %s", text);
    err = sharers_count(rt, may_share);
    return err ? err : zero__lanes_open(rt->run);
}
