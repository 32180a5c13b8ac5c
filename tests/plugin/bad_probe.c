/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, but its probe says that it cannot be used here. */
#include <errno.h>

#include "tests/plugin/stub.h"

static int probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    stub_probe(host, caps);
    return host->fail(host->ctx, "bad_probe", -ENODEV, "no such wire in this machine");
}

static const struct zero_comm_ops ops =
    STUB_TABLE(sizeof(struct zero_comm_ops), probe, STUB_POINTER(post));
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN("bad_probe", ifaces);
STUB_MAIN(plugin)
