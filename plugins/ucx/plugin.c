/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `ucx`; see ucx.h for what it is. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "../common/entry.h"
#include "ucx.h"

static int probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const struct zero__voice voice = {host, UCX_NAME};
    ucp_context_h context;
    bool network;
    int err = zero__p2p_caps(&voice, caps);

    if (!err)
        err = zero__ucx_context(&voice, "", 1, &context);
    if (err)
        return err;
    int n = snprintf(caps->note, sizeof caps->note, "UCX %.32s: ", ucp_get_version_string());
    err = zero__ucx_devices(context, caps->note + n, sizeof caps->note - (size_t)n, &network);
    ucp_cleanup(context);
    if (err)
        return zero__say(&voice, -ENODEV,
                         "UCX %s finds no transport; UCX_LOG_LEVEL=info says what it looked at",
                         ucp_get_version_string());
    if (network)
        caps->flags |= ZERO_COMM_NETWORK;
    return 0;
}

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = probe,
    .open = zero__ucx_open,
    ZERO__P2P_ENTRIES,
};

ZERO__PLUGIN(UCX_NAME, COMM, &ops, __VERSION__)
