/* SPDX-License-Identifier: Apache-2.0 */
/* UCX with its user's settings, for the probe as for a rank. */
#include <stdlib.h>
#include <string.h>

#include "ucx.h"

const char *zero__ucx_devices_set(const char *devices)
{
    const char *set = getenv("UCX_NET_DEVICES");
    return set ? set : *devices ? devices : "all";
}

/* What the user has not set in the environment. */
static void set_default(ucp_config_t *config, const char *variable, const char *value)
{
    if (!getenv(variable))
        ucp_config_modify(config, variable + strlen("UCX_"), value);
}

int zero__ucx_context(const struct zero__voice *v, const char *devices, int32_t ranks,
                      ucp_context_h *context)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)ranks,
        .mt_workers_shared = 0,
        .name = "libzero",
    };
    ucp_config_t *config;

    zero__ucx_log();
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return zero__say(v, zero__ucx_errno(status),
                         "a UCX_ setting of the environment is wrong (%s): UCX has named it above, "
                         "unless UCX_LOG_LEVEL forbids",
                         ucs_status_string(status));
    set_default(config, "UCX_KEEPALIVE_INTERVAL", "2s");
    if (*devices)
        set_default(config, "UCX_NET_DEVICES", devices);
    status = ucp_init(&params, config, context);
    ucp_config_release(config);
    if (status == UCS_OK)
        return 0;
    *context = NULL;
    return zero__say(v, zero__ucx_errno(status),
                     "UCX does not start: %s; UCX_TLS is \"%s\", UCX_NET_DEVICES \"%s\": `zero "
                     "info` without them lists what there is",
                     ucs_status_string(status), getenv("UCX_TLS") ? getenv("UCX_TLS") : "all",
                     zero__ucx_devices_set(devices));
}
