/* SPDX-License-Identifier: Apache-2.0 */
/* The bare exchange over UCX; see exchange.h. UCX_TLS chooses the transport. */
#include "pair.h"

#include <ucp/api/ucp.h>

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;

static void need(ucs_status_t status, const char *what)
{
    if (status != UCS_OK)
        fail(what, ucs_status_string(status));
}

static void transport_open(int peer_fd)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    const ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    static char theirs[ADDRESS_MOST];
    ucp_config_t *config;
    ucp_address_t *mine;
    size_t bytes;

    need(ucp_config_read(NULL, NULL, &config), "configuration");
    need(ucp_init(&params, config, &context), "context");
    ucp_config_release(config);
    need(ucp_worker_create(context, &single, &worker), "worker");
    need(ucp_worker_get_address(worker, &mine, &bytes), "address");
    swap_addresses(peer_fd, mine, bytes, theirs);
    ucp_worker_release_address(worker, mine);
    ep.address = (void *)theirs;
    need(ucp_ep_create(worker, &ep, &endpoint), "endpoint");
}

static bool is_done(ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request))
        fail("a message", ucs_status_string(UCS_PTR_STATUS(request)));
    return !request || ucp_request_check_status(request) != UCS_INPROGRESS;
}

static void transport_exchange(const char *out, char *in, size_t bytes)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t r = ucp_tag_recv_nbx(worker, in, bytes, 1, UINT64_MAX, &param);
    ucs_status_ptr_t s = ucp_tag_send_nbx(endpoint, out, bytes, 1, &param);

    for (unsigned turn = 0; !is_done(r) || !is_done(s); turn++) {
        ucp_worker_progress(worker);
        give_way(turn);
    }
    if (r)
        ucp_request_free(r);
    if (s)
        ucp_request_free(s);
}

static void transport_close(void)
{
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}
