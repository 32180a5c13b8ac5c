/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of libfabric, their completions, and sleeping until there is one. */
#define _GNU_SOURCE
#include <stddef.h>

#include "../common/wake.h"
#include "ofi.h"

#define BATCH 16                    /* completions read at a time */
#define ROUNDS 4                    /* of them in one progress */
#define NAP_NS (INT64_C(50) * 1000) /* without a descriptor to sleep at */

_Static_assert(sizeof(((struct zero__p2p_op *)0)->own) >= sizeof(struct fi_context2),
               "providers keep their own state in the context");

static struct zero__p2p_op *op_of(void *context)
{
    return (struct zero__p2p_op *)(void *)((char *)context - offsetof(struct zero__p2p_op, own));
}

static void *description(void *handle)
{
    return handle ? fi_mr_desc(((struct ofi_region *)handle)->mr) : NULL;
}

/* A message has begun, or not. */
static int begun(struct ofi *ofi, ssize_t err)
{
    if (err == 0 || err == -FI_EAGAIN)
        return err ? -EAGAIN : 0;
    return zero__p2p_explain(&ofi->p2p, zero__ofi_errno(err), "%s", zero__ofi_text(err));
}

int zero__ofi_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                   uint64_t bytes, void *handle, struct zero__p2p_op *op)
{
    struct ofi *ofi = ofi_of(t);

    return begun(
        ofi, fi_tsend(ofi->ep, data, bytes, description(handle), ofi->peers[peer], tag, op->own));
}

int zero__ofi_recv(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                   void *handle, struct zero__p2p_op *op)
{
    struct ofi *ofi = ofi_of(t);

    (void)peer; /* the tag names it */
    return begun(
        ofi, fi_trecv(ofi->ep, data, bytes, description(handle), FI_ADDR_UNSPEC, tag, 0, op->own));
}

void zero__ofi_cancel(struct zero__p2p *t, struct zero__p2p_op *op)
{
    fi_cancel(&ofi_of(t)->ep->fid, op->own);
}

/* The completion of a message that failed. Without one the endpoint itself is broken. */
static int read_error(struct ofi *ofi)
{
    struct fi_cq_err_entry e = {0};
    ssize_t n = fi_cq_readerr(ofi->cq, &e, 0);
    const char *text;

    if (n == -FI_EAGAIN)
        return 0;
    if (n < 0)
        return zero__p2p_explain(&ofi->p2p, zero__ofi_errno(n),
                                 "libfabric's completion queue: %s", zero__ofi_text(n));
    text = fi_cq_strerror(ofi->cq, e.prov_errno, e.err_data, NULL, 0);
    if (!e.op_context)
        return zero__p2p_explain(&ofi->p2p, zero__ofi_errno(e.err), "%s (%s)",
                                 zero__ofi_text(e.err), text ? text : "?");
    zero__p2p_end(op_of(e.op_context),
                  zero__p2p_explain(&ofi->p2p, zero__ofi_errno(e.err), "%s (%s)",
                                    zero__ofi_text(e.err), text ? text : "?"));
    return 0;
}

int zero__ofi_progress(struct zero__p2p *t)
{
    struct ofi *ofi = ofi_of(t);
    struct fi_cq_tagged_entry entries[BATCH];
    ssize_t n = BATCH;

    for (int round = 0; round < ROUNDS && n == BATCH; round++) {
        n = fi_cq_read(ofi->cq, entries, BATCH);
        if (n == -FI_EAVAIL)
            return read_error(ofi);
        if (n == -FI_EAGAIN)
            return 0;
        if (n < 0)
            return zero__p2p_explain(&ofi->p2p, zero__ofi_errno(n),
                                     "libfabric's completion queue: %s", zero__ofi_text(n));
        for (ssize_t i = 0; i < n; i++) {
            struct zero__p2p_op *op = op_of(entries[i].op_context);
            zero__p2p_end(op, (int64_t)(op->receives ? entries[i].len : op->bytes));
        }
    }
    return 0;
}

void zero__ofi_wait(struct zero__p2p *t, int64_t timeout_ns)
{
    struct ofi *ofi = ofi_of(t);
    struct fid *fids[1] = {&ofi->cq->fid};
    int64_t ns = ofi->cq_fd < 0 && timeout_ns > NAP_NS ? NAP_NS : timeout_ns;

    if (ofi->cq_fd >= 0 && fi_trywait(ofi->fabric, fids, 1) != FI_SUCCESS)
        return; /* something has come meanwhile */
    zero__wake_sleep(ofi->p2p.wake_fd, ofi->cq_fd, ns);
}
