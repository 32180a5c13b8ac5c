/* SPDX-License-Identifier: Apache-2.0 */
/* The library with an entry that bad_origin.c depends on. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_GOOD_TABLE;
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_origin", ifaces);
STUB_MAIN(plugin)
