/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin of UCX: tag messages of one worker per rank, an endpoint per peer. All UCX_*
 * settings of the environment hold. Remote memory access is not used: over tcp it is slow in the
 * versions that distributions ship, and messages reach the same speed everywhere.
 */
#ifndef ZERO_PLUGINS_UCX_H
#define ZERO_PLUGINS_UCX_H

#include <ucp/api/ucp.h>

#include "../common/p2p/p2p.h"

#define UCX_NAME "ucx"

struct ucx_peer {
    struct ucx *ucx;
    ucp_ep_h ep; /* NULL for this rank */
    ucs_status_ptr_t closing;
    int lost;   /* how the connection broke, 0: it did not */
    bool local; /* on this machine */
};

struct ucx {
    struct zero__p2p p2p; /* first */
    char devices[256]; /* of networks, chosen for it; empty: what UCX or its user chooses */
    ucp_context_h context;
    ucp_worker_h worker;
    int event_fd; /* the worker's, not to be closed */
    struct ucx_peer *peers;
};

static inline struct ucx *ucx_of(struct zero__p2p *t)
{
    return (struct ucx *)(void *)t;
}

/* connect.c: collective. */
int zero__ucx_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx);

/* message.c */
int zero__ucx_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                   uint64_t bytes, void *handle, struct zero__p2p_op *op);
int zero__ucx_recv(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                   void *handle, struct zero__p2p_op *op);
void zero__ucx_cancel(struct zero__p2p *t, struct zero__p2p_op *op);
int zero__ucx_progress(struct zero__p2p *t);
void zero__ucx_wait(struct zero__p2p *t, int64_t timeout_ns);

/* memory.c */
int zero__ucx_reg(struct zero__p2p *t, void *base, uint64_t bytes, void **handle);
void zero__ucx_unreg(struct zero__p2p *t, void *handle);

/*
 * context.c: UCX with the settings of its user, and what libzero sets where the user has not:
 * `devices` of networks, empty: all. Errors name the settings.
 */
int zero__ucx_context(const struct zero__voice *voice, const char *devices, int32_t ranks,
                      ucp_context_h *context);
/* The devices that it uses, for people. */
const char *zero__ucx_devices_set(const char *devices);

/*
 * devices.c: "posix, cma, tcp (eth0, lo)": what the context uses; `network`: other hosts can be
 * reached so.
 */
int zero__ucx_devices(ucp_context_h context, char *text, size_t room, bool *network);
/*
 * "eth0,mlx5_0:1": what a rank uses that reaches the others by this interface. Over IP that one
 * alone; devices of other networks have addresses of their own.
 */
void zero__ucx_net_devices(const char *interface, char *text, size_t room);

/* log.c: UCX does not warn of what an abort leaves behind. */
void zero__ucx_log(void);

/* status.c: the negative errno that comes closest. */
int zero__ucx_errno(ucs_status_t status);

#endif
