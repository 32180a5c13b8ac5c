/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's worker and its endpoints. Peers of other machines have endpoints that notice a broken
 * connection. Within a machine UCX would then give up copying directly between processes, so there
 * the job's control channel alone notices deaths, which it does in milliseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/oob.h"
#include "../common/open.h"
#include "machine/clock.h"
#include "machine/host.h"
#include "ucx.h"

#define FLUSH_NS (INT64_C(2) * ZERO_SECOND) /* for what was sent to arrive, at the end */
#define NAP_NS (INT64_C(1000) * 1000)            /* what comes ends it */

/* What a rank says before its UCX address. */
struct hello {
    uint64_t version;
    struct zero__host machine;
};

static void hello_fill(struct hello *h)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    memset(h, 0, sizeof *h);
    h->version = (uint64_t)major << 32 | minor;
    zero__host_here(&h->machine);
}

/* The error handler of an endpoint; the receives from that peer would wait for ever. */
static void peer_lost(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_peer *peer = arg;
    struct zero__p2p *t = &peer->ucx->p2p;

    (void)ep;
    if (peer->lost)
        return;
    peer->lost = zero__ucx_errno(status);
    t->n_lost++;
    t->n_ended++; /* something to look at */
}

static int lost(const struct zero__p2p *t, int32_t peer)
{
    return ((const struct ucx *)(const void *)t)->peers[peer].lost;
}

static int endpoint_make(struct ucx *ucx, int32_t p, const void *address, bool local)
{
    struct ucx_peer *peer = &ucx->peers[p];
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = peer_lost, .arg = peer},
    };
    ucs_status_t status;

    peer->ucx = ucx;
    peer->local = local;
    status = ucp_ep_create(ucx->worker, &params, &peer->ep);
    if (status == UCS_OK)
        return 0;
    peer->ep = NULL;
    return zero__say(&ucx->p2p.voice, zero__ucx_errno(status),
                     "cannot connect to rank %d: %s; do UCX_TLS and UCX_NET_DEVICES (%s) leave a "
                     "transport that reaches it? ZERO_INTERFACE names another interface",
                     p, ucs_status_string(status), zero__ucx_devices_set(ucx->devices));
}

static int endpoints_make(struct ucx *ucx, const char *all, size_t stride)
{
    const struct hello *mine = (const void *)(all + (size_t)ucx->p2p.rank * stride);

    for (int32_t p = 0; p < ucx->p2p.ranks; p++) {
        const struct hello *h = (const void *)(all + (size_t)p * stride);
        int err = 0;
        if (h->version >> 32 != mine->version >> 32)
            return zero__say(&ucx->p2p.voice, -EPROTO,
                             "ranks %d and %d use UCX %u and %u: install the same version",
                             ucx->p2p.rank, p, (unsigned)(mine->version >> 32),
                             (unsigned)(h->version >> 32));
        if (p != ucx->p2p.rank)
            err = endpoint_make(ucx, p, h + 1, zero__host_same(&h->machine, &mine->machine));
        if (err)
            return err;
    }
    return 0;
}

/* A rank's own hello and address; to be freed. */
static int address_make(struct ucx *ucx, char **blob, size_t *blob_bytes)
{
    ucp_address_t *address;
    size_t bytes;
    ucs_status_t status = ucp_worker_get_address(ucx->worker, &address, &bytes);

    if (status != UCS_OK)
        return zero__say(&ucx->p2p.voice, zero__ucx_errno(status), "no UCX address: %s; "
                         "UCX_LOG_LEVEL=info says what it looked at", ucs_status_string(status));
    /* The length is rounded up, so that each hello in the row of blobs is aligned. */
    *blob_bytes = (sizeof(struct hello) + bytes + 7) / 8 * 8;
    *blob = calloc(1, *blob_bytes);
    if (*blob) {
        hello_fill((struct hello *)(void *)*blob);
        memcpy(*blob + sizeof(struct hello), address, bytes);
    }
    ucp_worker_release_address(ucx->worker, address);
    return *blob ? 0 : zero__say(&ucx->p2p.voice, -ENOMEM, "no memory for a UCX address");
}

/* Every rank's address to every rank, and an endpoint to each. */
static int connect_all(struct ucx *ucx, const struct zero_oob *oob, const char *blob, size_t bytes)
{
    const struct zero__voice *v = &ucx->p2p.voice;
    int64_t until = zero__deadline_ns(ucx->p2p.timeout_ns);
    char *all = NULL;
    size_t stride;
    int err = zero__oob_gather_blobs(v, oob, until, "open", blob, bytes, &all, &stride);

    if (!err)
        err = zero__oob_agree(v, oob, until, "open", endpoints_make(ucx, all, stride));
    free(all);
    return err;
}

static int worker_make(struct ucx *ucx)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK, /* those that abort leaves */
    };
    ucs_status_t status = ucp_worker_create(ucx->context, &params, &ucx->worker);

    if (status != UCS_OK)
        ucx->worker = NULL;
    else
        status = ucp_worker_get_efd(ucx->worker, &ucx->event_fd);
    if (status == UCS_OK)
        return 0;
    return zero__say(&ucx->p2p.voice, zero__ucx_errno(status),
                     "no UCX worker: %s; UCX_TLS and UCX_NET_DEVICES choose what it is made of, "
                     "UCX_LOG_LEVEL=info says what it looked at",
                     ucs_status_string(status));
}

/* Sleeps between looks: a rank that computes for so long is taken for one that never returns. */
static void finish(struct ucx *ucx, ucs_status_ptr_t request, int64_t until)
{
    while (ucp_request_check_status(request) == UCS_INPROGRESS && zero__now_ns() < until)
        if (!ucp_worker_progress(ucx->worker))
            zero__ucx_wait(&ucx->p2p, NAP_NS);
    ucp_request_free(request);
}

/* Until everything that was sent is on its way; a peer that is gone does not hold it up for long.
 */
static void flush(struct ucx *ucx)
{
    const ucp_request_param_t param = {0};
    int64_t until = zero__deadline_ns(FLUSH_NS);
    ucs_status_ptr_t request = ucp_worker_flush_nbx(ucx->worker, &param);

    if (!request || UCS_PTR_IS_ERR(request))
        return;
    finish(ucx, request, until);
}

/*
 * Messages to a peer that was cut off never end, and a worker that is destroyed before them kills
 * the process. Endpoints without error handling, to ranks of this machine, cannot be forced. All
 * begin to close before any is waited for: one peer that takes long leaves the others their time.
 */
static void cut_off(struct ucx *ucx)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    int64_t until = zero__deadline_ns(FLUSH_NS);

    for (int32_t p = 0; p < ucx->p2p.ranks; p++) {
        struct ucx_peer *peer = &ucx->peers[p];
        if (!peer->ep || peer->local)
            continue;
        peer->closing = ucp_ep_close_nbx(peer->ep, &param);
        peer->ep = NULL;
        if (UCS_PTR_IS_ERR(peer->closing))
            peer->closing = NULL;
    }
    for (int32_t p = 0; p < ucx->p2p.ranks; p++)
        if (ucx->peers[p].closing)
            finish(ucx, ucx->peers[p].closing, until);
}

/* The worker takes its endpoints with it. */
static void transport_stop(struct zero__p2p *t, bool aborted)
{
    struct ucx *ucx = ucx_of(t);

    if (!ucx->worker)
        return;
    if (aborted)
        cut_off(ucx);
    else
        flush(ucx);
    ucp_worker_destroy(ucx->worker);
    ucx->worker = NULL;
}

static void transport_close(struct zero__p2p *t)
{
    struct ucx *ucx = ucx_of(t);

    if (ucx->context)
        ucp_cleanup(ucx->context);
    free(ucx->peers);
    free(ucx);
}

static const struct zero__p2p_ops ops = {
    .send = zero__ucx_send,
    .recv = zero__ucx_recv,
    .cancel = zero__ucx_cancel,
    .progress = zero__ucx_progress,
    .lost = lost,
    .wait = zero__ucx_wait,
    .reg = zero__ucx_reg,
    .unreg = zero__ucx_unreg,
    .stop = transport_stop,
    .close = transport_close,
};

static int ucx_new(const struct zero__voice *voice, const struct zero_comm_open *params,
                   struct ucx **out)
{
    struct zero__p2p *t;
    struct ucx *ucx;
    int err = zero__p2p_new(voice, params, &ops, sizeof *ucx, &t);

    if (err)
        return err;
    ucx = ucx_of(t);
    ucx->event_fd = -1;
    ucx->peers = calloc((size_t)t->ranks, sizeof *ucx->peers);
    if (!ucx->peers) {
        free(ucx);
        return zero__say(voice, -ENOMEM, "no memory for a context");
    }
    t->late_bytes = ZERO__P2P_LATE;
    if (zero__open_interface(params))
        zero__ucx_net_devices(zero__open_interface(params), ucx->devices, sizeof ucx->devices);
    snprintf(t->way, sizeof t->way, " (by %.30s; UCX_NET_DEVICES or ZERO_INTERFACE choose)",
             zero__ucx_devices_set(ucx->devices));
    *out = ucx;
    return 0;
}

int zero__ucx_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero__voice voice = {params->host, UCX_NAME};
    struct ucx *ucx = NULL;
    char *blob = NULL;
    size_t blob_bytes = 0;
    int err = ucx_new(&voice, params, &ucx);

    if (err)
        return err;
    err = zero__ucx_context(&voice, ucx->devices, ucx->p2p.ranks, &ucx->context);
    if (!err)
        err = worker_make(ucx);
    if (!err)
        err = address_make(ucx, &blob, &blob_bytes);
    /* Who has no address says so here: the others would wait for it. */
    err = zero__oob_agree(&voice, params->oob, zero__deadline_ns(ucx->p2p.timeout_ns), "open", err);
    if (!err)
        err = connect_all(ucx, params->oob, blob, blob_bytes);
    free(blob);
    if (!err)
        return zero__p2p_open(params, &ucx->p2p, out);
    transport_stop(&ucx->p2p, true);
    transport_close(&ucx->p2p);
    return err;
}
