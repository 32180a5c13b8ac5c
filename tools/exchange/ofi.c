/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare exchange over libfabric; see exchange.h. ZERO_OFI_PROVIDER and ZERO_OFI_DEVICE choose as
 * they do for the plugin.
 */
#include "pair.h"

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

/* As the plugin chooses: shared memory, else the fastest network, unless the user names one. */
static int rank_of(const char *provider, const char *wish)
{
    static const char *const order[] = {
        "shm", "cxi", "efa", "psm3", "psm2", "opx", "verbs;ofi_rxm", "tcp;ofi_rxm", "tcp",
    };
    const int n = (int)(sizeof order / sizeof *order);
    size_t len = strlen(wish);

    if (len && (strncmp(provider, wish, len) != 0 || (provider[len] && provider[len] != ';')))
        return -1; /* "tcp" stands for "tcp;ofi_rxm", too */
    for (int i = 0; i < n; i++)
        if (strcmp(provider, order[i]) == 0)
            return i;
    return len ? n : -1;
}

/* A named device, else the loopback where the provider has one. */
static int device_of(const struct fi_info *i, const char *wish)
{
    const char *name = i->domain_attr->name ? i->domain_attr->name : "";

    if (*wish && strcmp(i->fabric_attr->prov_name, "shm") != 0)
        return strcmp(name, wish) == 0 ? 0 : -1;
    return i->addr_format == FI_SOCKADDR_IN && strcmp(name, "lo") == 0 ? 0 : 1;
}

static const char *set(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static void find(void)
{
    const char *provider = set("ZERO_OFI_PROVIDER"), *device = set("ZERO_OFI_DEVICE");
    struct fi_info *hints = fi_allocinfo(), *all = NULL, *best = NULL;
    int best_rank = 0;

    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    need(fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &all), "providers");
    for (struct fi_info *i = all; i; i = i->next) {
        int p = rank_of(i->fabric_attr->prov_name, provider), d = device_of(i, device);
        if (p < 0 || d < 0 || (best && 2 * p + d >= best_rank))
            continue;
        best = i;
        best_rank = 2 * p + d;
    }
    if (!best)
        fail(*provider ? provider : "libfabric",
             "no such provider that carries tagged messages from memory that is not registered");
    info = fi_dupinfo(best);
    fi_freeinfo(all);
    fi_freeinfo(hints);
}

static void transport_open(int peer_fd)
{
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_av_attr table = {.type = FI_AV_TABLE, .count = 2};
    char mine[ADDRESS_MOST], theirs[ADDRESS_MOST];
    size_t bytes = sizeof mine;

    find();
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

static void transport_exchange(const char *out, char *in, size_t bytes)
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
    for (unsigned turn = 0; done < 2; turn++) {
        done += reap();
        give_way(turn);
    }
}

static void transport_close(void)
{
    fi_close(&ep->fid);
    fi_close(&cq->fid);
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}
