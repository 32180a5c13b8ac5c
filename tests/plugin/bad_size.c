/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: the table's size is garbage. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_TABLE(0x7f0012345678, stub_probe, STUB_POINTER(post));
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_size", ifaces);
STUB_MAIN(plugin)
