/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: calls itself other than its file. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_GOOD_TABLE;
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("another_name", ifaces);
STUB_MAIN(plugin)
