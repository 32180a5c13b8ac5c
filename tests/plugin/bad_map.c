/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: a tier whose bytes are memory, without the function that says where. */
#include "tests/plugin/stub.h"

#include <zero/offload.h>

static int probe(const struct zero_host *host, struct zero_store_info *info)
{
    (void)host;
    info->flags = ZERO_STORE_MAPPED;
    info->mem = ZERO_MEM_HOST;
    info->capacity = UINT64_C(1) << 40;
    info->offset_align = info->buffer_align = 1;
    info->max_io = info->best_io = 1 << 20;
    info->depth = 1;
    return 0;
}

#define ENTRY(name) .name = (__typeof__(((struct zero_offload_ops *)0)->name))stub_void

static const struct zero_offload_ops ops = {.size = sizeof(struct zero_offload_ops),
                                            .probe = probe,
                                            ENTRY(open),
                                            ENTRY(info),
                                            ENTRY(resize),
                                            ENTRY(reg),
                                            ENTRY(unreg),
                                            ENTRY(submit),
                                            ENTRY(poll),
                                            ENTRY(wake),
                                            ENTRY(close)};
static const struct zero_iface ifaces[] = {{.kind = ZERO_IFACE_OFFLOAD,
                                            .major = ZERO_OFFLOAD_MAJOR,
                                            .minor = ZERO_OFFLOAD_MINOR,
                                            .ops = &ops}};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_map", ifaces);
STUB_MAIN(plugin)
