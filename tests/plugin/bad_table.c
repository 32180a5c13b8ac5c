/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: the interface has no table. */
#include "tests/plugin/stub.h"

static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(NULL)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_table", ifaces);
STUB_MAIN(plugin)
