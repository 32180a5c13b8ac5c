/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: needs a later minor version than the library has. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_GOOD_TABLE;
static const struct zero_iface ifaces[] = {
    STUB_IFACE(ZERO_IFACE_COMM, ZERO_COMM_MINOR + 7, ZERO_COMM_MINOR + 7, &ops),
};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_need", ifaces);
STUB_MAIN(plugin)
