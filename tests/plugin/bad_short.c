/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: the table ends before a mandatory entry, as if from before that entry existed. */
#include "tests/plugin/stub.h"

static const struct zero_comm_ops ops =
    STUB_TABLE(offsetof(struct zero_comm_ops, split), stub_probe, STUB_POINTER(post));
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_short", ifaces);
STUB_MAIN(plugin)
