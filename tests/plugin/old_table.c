/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No fault: a device plugin from before the optional entries at the end of the table existed. Its
 * table is followed by bytes that must not be taken for entries.
 */
#include <string.h>

#include <zero/device.h>

static int probe(const struct zero_host *host, struct zero_device_info *info)
{
    (void)host;
    (void)info;
    return 0;
}

#define OLD_BYTES offsetof(struct zero_device_ops, wait_value)

static union {
    struct zero_device_ops ops;
    unsigned char bytes[OLD_BYTES + 64];
} table;
static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_DEVICE, .minor = 0, .ops = &table},
};
static const struct zero_plugin plugin = {
    .size = sizeof plugin, .name = "old_table", .ifaces = ifaces, .n_ifaces = 1};

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **out)
{
    (void)host;
    memset(&table, 0x5a, sizeof table);
    table.ops.size = OLD_BYTES;
    table.ops.probe = probe;
    *out = &plugin;
    return 0;
}
