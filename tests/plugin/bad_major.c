/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: speaks another major version. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_GOOD_TABLE;
static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_COMM, .major = ZERO_COMM_MAJOR + 41, .minor = 3, .ops = &ops},
};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_major", ifaces);
STUB_MAIN(plugin)
