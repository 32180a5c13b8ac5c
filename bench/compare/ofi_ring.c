/* SPDX-License-Identifier: Apache-2.0 */
/* The bare exchange over libfabric; see ring.h. RING_PROVIDER names the provider. */
#define RING_NAME "ofi, bare"
#include "ring.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static fi_addr_t peer;

static void need(int err, const char *what)
{
    if (err)
        fail(what, fi_strerror(-err));
}

/* The first description of the provider, on the loopback where it has one. */
static void find(const char *provider)
{
    struct fi_info *hints = fi_allocinfo(), *all, *best = NULL;

    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    need(fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &all), provider);
    for (struct fi_info *i = all; i; i = i->next)
        if (!best || (i->addr_format == FI_SOCKADDR_IN && strcmp(i->domain_attr->name, "lo") == 0 &&
                      strcmp(best->domain_attr->name, "lo") != 0))
            best = i;
    info = fi_dupinfo(best);
    fi_freeinfo(all);
    fi_freeinfo(hints);
}

static void ring_open(int rank, int peer_fd)
{
    const char *provider = getenv("RING_PROVIDER");
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_av_attr table = {.type = FI_AV_TABLE, .count = 2};
    char mine[ADDRESS_MOST], theirs[ADDRESS_MOST];
    size_t bytes = sizeof mine;

    (void)rank;
    find(provider ? provider : "shm");
    need(fi_fabric(info->fabric_attr, &fabric, NULL), "fabric");
    need(fi_domain(fabric, info, &domain, NULL), "domain");
    need(fi_av_open(domain, &table, &av, NULL), "address table");
    need(fi_cq_open(domain, &queue, &cq, NULL), "completion queue");
    need(fi_endpoint(domain, info, &ep, NULL), "endpoint");
    need(fi_ep_bind(ep, &av->fid, 0), "address table");
    need(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "completion queue");
    need(fi_enable(ep), "endpoint");
    need(fi_getname(&ep->fid, mine, &bytes), "address");
    swap_addresses(peer_fd, mine, bytes, theirs);
    if (fi_av_insert(av, theirs, 1, &peer, 0, NULL) != 1)
        fail("address", "it is not taken");
}

static int reap(void)
{
    struct fi_cq_entry entries[2];
    ssize_t n = fi_cq_read(cq, entries, 2);

    if (n < 0 && n != -FI_EAGAIN)
        fail("completion queue", fi_strerror((int)-n));
    return n > 0 ? (int)n : 0;
}

static void ring_exchange(const char *out, char *in, size_t bytes)
{
    struct fi_context2 r, s;
    ssize_t err;
    int done = 0;

    while ((err = fi_trecv(ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, &r)) == -FI_EAGAIN)
        done += reap();
    need((int)err, "receive");
    while ((err = fi_tsend(ep, out, bytes, NULL, peer, 1, &s)) == -FI_EAGAIN)
        done += reap();
    need((int)err, "send");
    while (done < 2)
        done += reap();
}

static void ring_close(void)
{
    fi_close(&ep->fid);
    fi_close(&cq->fid);
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}
