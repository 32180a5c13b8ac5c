/* SPDX-License-Identifier: Apache-2.0 */
/* No fault: built against later headers, with a longer table and a longer description. */
#include "tests/plugin/stub.h"

static const struct {
    struct zero_comm_ops ops;
    int (*later[3])(void);
} table = {.ops = STUB_TABLE(sizeof table, stub_probe, STUB_POINTER(post)), .later = {0}};
static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_COMM, .major = ZERO_COMM_MAJOR + 1, .minor = 0, .ops = NULL},
    STUB_IFACE(ZERO_IFACE_COMM, ZERO_COMM_MINOR + 5, 0, &table),
};
static const struct {
    struct zero_plugin plugin;
    const char *later;
} desc = {.plugin = {.size = sizeof desc,
                     .name = "new_table",
                     .version = "9",
                     .build = "test",
                     .ifaces = ifaces,
                     .n_ifaces = 2},
          .later = "x"};
STUB_MAIN(desc.plugin)
