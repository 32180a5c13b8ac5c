/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `cpu`; see cpu.h for what it is. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "../common/entry.h"
#include "../common/locked.h"
#include "cpu.h"
#include "machine/left.h"

static int probe(const struct zero_host *host, struct zero_store_info *info)
{
    const struct zero__voice voice = {host, CPU_NAME};
    struct zero_store_info full = {.capacity = zero__memory_left(NULL, 0)};
    uint64_t limit;
    enum cpu_lock lock;
    int err = zero__cpu_lock(&voice, &lock);

    if (err)
        return err;
    zero__cpu_describe(&full);
    limit = zero__locked_limit();
    if (limit == UINT64_MAX)
        snprintf(full.note, sizeof full.note, "host memory, all of it may be locked");
    else
        snprintf(full.note, sizeof full.note, "host memory, %llu bytes may be locked",
                 (unsigned long long)limit);
    zero__store_info_give(&full, info);
    return 0;
}

static const struct zero_offload_ops ops = {
    .size = sizeof(struct zero_offload_ops),
    .probe = probe,
    .open = zero__cpu_open,
    .info = zero__cpu_info,
    .resize = zero__cpu_resize,
    .reg = zero__cpu_reg,
    .unreg = zero__cpu_unreg,
    .map = zero__cpu_map,
    .submit = zero__cpu_submit,
    .poll = zero__cpu_poll,
    .wake = zero__cpu_wake,
    .close = zero__cpu_close,
};

ZERO__PLUGIN(CPU_NAME, OFFLOAD, &ops, __VERSION__)
