/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of UCX, and sleeping until one comes. */
#define _GNU_SOURCE
#include <stdint.h>

#include "../common/wake.h"
#include "ucx.h"

#define ROUNDS 16 /* of the worker in one progress, as long as something happens */
#define UNARMED_NS 1000000 /* between looks at a worker that cannot be waited for */

static void sent(void *request, ucs_status_t status, void *user)
{
    struct zero__p2p_op *op = user;

    zero__p2p_end(op, status == UCS_OK ? (int64_t)op->bytes : zero__ucx_errno(status));
    ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                     void *user)
{
    struct zero__p2p_op *op = user;

    zero__p2p_end(op, status == UCS_OK ? (int64_t)info->length : zero__ucx_errno(status));
    ucp_request_free(request);
}

/* It does not begin: in UCX's words. */
static int refused(struct zero__p2p *t, ucs_status_t status)
{
    int err = zero__ucx_errno(status);

    return err == -EAGAIN ? err : zero__p2p_explain(t, err, "%s", ucs_status_string(status));
}

int zero__ucx_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                   uint64_t bytes, void *handle, struct zero__p2p_op *op)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = sent,
        .user_data = op,
    };
    ucs_status_ptr_t request;

    (void)handle; /* UCX finds the registration by the address */
    request = ucp_tag_send_nbx(ucx_of(t)->peers[peer].ep, data, bytes, tag, &param);
    if (UCS_PTR_IS_ERR(request))
        return refused(t, UCS_PTR_STATUS(request));
    if (request)
        op->own[0] = request;
    else
        zero__p2p_end(op, (int64_t)bytes);
    return 0;
}

/*
 * The completion always comes through the callback: of a message that is there already, UCX 1.13
 * does not say how long it is.
 */
int zero__ucx_recv(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                   void *handle, struct zero__p2p_op *op)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = received,
        .user_data = op,
    };
    ucs_status_ptr_t request;

    (void)peer; /* the tag names it */
    (void)handle;
    request = ucp_tag_recv_nbx(ucx_of(t)->worker, data, bytes, tag, UINT64_MAX, &param);
    if (UCS_PTR_IS_ERR(request))
        return refused(t, UCS_PTR_STATUS(request));
    if (op->busy)
        op->own[0] = request;
    return 0;
}

void zero__ucx_cancel(struct zero__p2p *t, struct zero__p2p_op *op)
{
    ucp_request_cancel(ucx_of(t)->worker, op->own[0]);
}

int zero__ucx_progress(struct zero__p2p *t)
{
    ucp_worker_h worker = ucx_of(t)->worker;

    const uint64_t ended = t->n_ended;
    int i = 0;

    /* A round may copy a piece of a large message; what has ended may let a peer begin its own. */
    while (i < ROUNDS && t->n_ended == ended && ucp_worker_progress(worker))
        i++;
    return i; /* pieces count, too */
}

void zero__ucx_wait(struct zero__p2p *t, int64_t timeout_ns)
{
    struct ucx *ucx = ucx_of(t);
    ucs_status_t status = ucp_worker_arm(ucx->worker);

    if (status == UCS_ERR_BUSY) /* something has come meanwhile */
        return;
    if (status != UCS_OK) /* nothing may tell of what comes: look soon, but do not spin */
        timeout_ns = timeout_ns < UNARMED_NS ? timeout_ns : UNARMED_NS;
    zero__wake_sleep(ucx->p2p.wake_fd, ucx->event_fd, timeout_ns);
}
