/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: uses a symbol that nobody defines; found when it is loaded, not in the middle of a run. */
#include "tests/plugin/stub.h"

int symbol_that_nobody_defines(void);

static int probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    return stub_probe(host, caps) + symbol_that_nobody_defines();
}

static const struct zero_comm_ops ops =
    STUB_TABLE(sizeof(struct zero_comm_ops), probe, STUB_POINTER(post));
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_undefined", ifaces);
STUB_MAIN(plugin)
