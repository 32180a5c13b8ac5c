/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin of libfabric: tagged messages of one reliable datagram endpoint per rank. Which
 * provider carries them is chosen by where the ranks are, or by ZERO_OFI_PROVIDER; libfabric's own
 * FI_* settings hold. Ranks are processes: libfabric's shared memory does not survive that one
 * thread of a process closes its endpoint while another sends to it.
 */
#ifndef ZERO_PLUGINS_OFI_H
#define ZERO_PLUGINS_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "../common/p2p/p2p.h"

#define OFI_NAME "ofi"
#define OFI_API FI_VERSION(1, 11)

/* Memory that was registered. */
struct ofi_region {
    struct ofi_region *next;
    struct fid_mr *mr; /* NULL: closed already */
    bool over;         /* unregistered, but the endpoint has to close first */
};

struct ofi {
    struct zero__p2p p2p; /* first */
    char interface[64]; /* by which this rank reaches the others; empty: not known */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t *peers;
    int cq_fd; /* -1: the provider offers none, so waiting is a short sleep */
    bool registers; /* the provider wants memory to be registered */
    uint64_t next_key;
    struct ofi_region *regions;
    bool kept; /* the provider did not close something, which was said */
};

static inline struct ofi *ofi_of(struct zero__p2p *t)
{
    return (struct ofi *)(void *)t;
}

/* provider.c */
struct ofi_wish {
    const char *provider, *device; /* "": whatever fits */
};
struct ofi_wish zero__ofi_wish(const struct zero_host *host);
/*
 * The description of the best provider that matches the wish; `local`: all ranks are on this
 * machine; `interface`: by which they are reached, preferred unless empty. To be freed with
 * fi_freeinfo().
 */
int zero__ofi_choose(const struct zero__voice *voice, const struct ofi_wish *wish, bool local,
                     const char *interface, struct fi_info **info);
/* "shm, tcp;ofi_rxm (eth0, lo)": what could be chosen; `network`: also something that reaches
 * hosts.
 */
int zero__ofi_providers(const struct ofi_wish *wish, char *text, size_t room, bool *network);

/* connect.c: collective. */
int zero__ofi_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx);
/* Closes it unless it is NULL; a line in the log for the first that stays. */
void zero__ofi_shut(struct ofi *ofi, struct fid *fid, const char *what);

/* status.c: the negative errno that comes closest to libfabric's error, of either sign. */
int zero__ofi_errno(int64_t err);
/* libfabric's words for it. */
const char *zero__ofi_text(int64_t err);

/* message.c */
int zero__ofi_send(struct zero__p2p *t, int32_t peer, uint64_t tag, const void *data,
                   uint64_t bytes, void *handle, struct zero__p2p_op *op);
int zero__ofi_recv(struct zero__p2p *t, int32_t peer, uint64_t tag, void *data, uint64_t bytes,
                   void *handle, struct zero__p2p_op *op);
void zero__ofi_cancel(struct zero__p2p *t, struct zero__p2p_op *op);
int zero__ofi_progress(struct zero__p2p *t);
void zero__ofi_wait(struct zero__p2p *t, int64_t timeout_ns);

/* memory.c: a handle is a struct ofi_region, NULL where nothing is registered. */
int zero__ofi_reg(struct zero__p2p *t, void *base, uint64_t bytes, void **handle);
void zero__ofi_unreg(struct zero__p2p *t, void *handle);
/* Before and after the endpoint closes: closes what is bound to it, as far as the provider does. */
void zero__ofi_regions_close(struct ofi *ofi);

#endif
