/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is wrong with this one: the others differ from it by their one fault. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_GOOD_TABLE;
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("good", ifaces);
STUB_MAIN(plugin)
