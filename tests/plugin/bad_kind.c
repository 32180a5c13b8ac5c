/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: its file says comm, but it offers storage only. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_GOOD_TABLE;
static const struct zero_iface ifaces[] = {STUB_IFACE(ZERO_IFACE_OFFLOAD, 0, 0, &ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_kind", ifaces);
STUB_MAIN(plugin)
