/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `ofi`; see ofi.h for what it is. */
#include <errno.h>
#include <stdio.h>

#include "ofi.h"

static int probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const struct zero__voice voice = {host, OFI_NAME};
    const struct ofi_wish wish = zero__ofi_wish(host), any = {"", ""};
    uint32_t version = fi_version();
    char providers[sizeof caps->note];
    bool network;
    int err = zero__p2p_caps(&voice, caps);

    if (err)
        return err;
    int n = snprintf(caps->note, sizeof caps->note, "libfabric %u.%u: ", FI_MAJOR(version),
                     FI_MINOR(version));
    if (!zero__ofi_providers(&wish, caps->note + n, sizeof caps->note - (size_t)n, &network)) {
        if (network)
            caps->flags |= ZERO_COMM_NETWORK;
        return 0;
    }
    if ((*wish.provider || *wish.device) &&
        !zero__ofi_providers(&any, providers, sizeof providers, &network))
        return zero__say(&voice, -ENODEV,
                         "libfabric %u.%u finds no provider for tagged messages with %s%s%s%s%s; "
                         "there are %s",
                         FI_MAJOR(version), FI_MINOR(version),
                         *wish.provider ? "ZERO_OFI_PROVIDER=" : "", wish.provider,
                         *wish.provider && *wish.device ? " and " : "",
                         *wish.device ? "ZERO_OFI_DEVICE=" : "", wish.device, providers);
    return zero__say(&voice, -ENODEV,
                     "libfabric %u.%u finds no provider with tagged messages; FI_LOG_LEVEL=info "
                     "says what it looked at",
                     FI_MAJOR(version), FI_MINOR(version));
}

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = probe,
    .open = zero__ofi_open,
    ZERO__P2P_ENTRIES,
};

static const struct zero_iface ifaces[] = {
    {.kind = ZERO_IFACE_COMM, .major = ZERO_COMM_MAJOR, .minor = ZERO_COMM_MINOR, .ops = &ops},
};

static const struct zero_plugin plugin = {
    .size = sizeof(struct zero_plugin),
    .name = OFI_NAME,
    .version = "0.1.0",
    .build = __VERSION__,
    .ifaces = ifaces,
    .n_ifaces = 1,
};

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **out)
{
    (void)host;
    *out = &plugin;
    return 0;
}
