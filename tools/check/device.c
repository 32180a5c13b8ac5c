/* SPDX-License-Identifier: Apache-2.0 */
/* The device whose streams and memory a comm plugin is tried with. */
#include "config.h"

#include "device.h"

#include <stdio.h>
#include <string.h>

#include "base/device_name.h"
#include "base/status.h"

int check_device_open(struct tool_comm *b, struct check_device *d)
{
    struct zero__plugin *plugin;
    char name[4096];
    int32_t index;
    int err;

    *d = (struct check_device){0};
    if (!(b->caps.flags & ZERO_COMM_STREAM))
        return 0;
    err = zero__device_name_split(zero__option_text(b->options, ZERO__OPT_DEVICE), name,
                                  sizeof name, &index);
    if (!err && !(b->caps.mem & ZERO_MEM_HOST) && strcmp(name, "host") == 0) {
        snprintf(name, sizeof name, "cuda");
        index = -1;
    }
    if (!err)
        err = zero__loader_load(b->loader, ZERO_IFACE_DEVICE, name, &plugin);
    if (err)
        return err;
    if (index < 0)
        index = b->caps.mem & ZERO_MEM_HOST ? 0 : zero__job_local_rank(b->job);
    d->ops = *zero__plugin_device(plugin);
    struct zero_device_open params = {
        .size = sizeof params,
        .host = zero__loader_host(b->loader),
        .index = index,
        .threads = 1,
        .timeout_ns = b->timeout_ns};
    err = d->ops.open(&params, &d->dev);
    return err ? zero__while(err, "device %s", name) : 0;
}

void check_device_close(struct check_device *d)
{
    if (d->dev)
        d->ops.close(d->dev);
    d->dev = NULL;
}
