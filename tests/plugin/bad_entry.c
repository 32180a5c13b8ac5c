/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: a mandatory entry is NULL. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops = STUB_TABLE(sizeof(struct zero_comm_ops), stub_probe, NULL);
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_entry", ifaces);
STUB_MAIN(plugin)
