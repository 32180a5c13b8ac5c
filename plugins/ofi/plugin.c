/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `ofi`; see ofi.h for what it is. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "../common/entry.h"
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

ZERO__PLUGIN(OFI_NAME, COMM, &ops, __VERSION__)
