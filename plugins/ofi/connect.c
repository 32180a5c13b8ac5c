/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's endpoint and the addresses of its peers. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/oob.h"
#include "../common/open.h"
#include "machine/clock.h"
#include "machine/host.h"
#include "ofi.h"

#define NAME_MOST 256 /* of an endpoint's address */

/* What a rank says before its address. */
struct hello {
    char provider[56];
};

struct address {
    char blob[sizeof(struct hello) + NAME_MOST];
    size_t bytes; /* of what is behind the hello */
};

static int broken(struct ofi *ofi, const char *what, int err)
{
    return zero__say(&ofi->p2p.voice, zero__ofi_errno(err),
                     "libfabric's %s gives no %s: %s; ZERO_OFI_PROVIDER chooses another provider, "
                     "FI_LOG_LEVEL=info says more",
                     ofi->info->fabric_attr->prov_name, what, zero__ofi_text(err));
}

/* With a descriptor to sleep at where the provider has one. */
static int queue_make(struct ofi *ofi)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};

    ofi->cq_fd = -1;
    if (fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL) == 0) {
        if (fi_control(&ofi->cq->fid, FI_GETWAIT, &ofi->cq_fd) == 0)
            return 0;
        ofi->cq_fd = -1;
        fi_close(&ofi->cq->fid);
    }
    ofi->cq = NULL;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
}

static int endpoint_enable(struct ofi *ofi)
{
    int err = fi_endpoint(ofi->domain, ofi->info, &ofi->ep, NULL);

    if (err) {
        ofi->ep = NULL;
        return err;
    }
    err = fi_ep_bind(ofi->ep, &ofi->av->fid, 0);
    if (!err)
        err = fi_ep_bind(ofi->ep, &ofi->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!err)
        err = fi_enable(ofi->ep);
    if (err) {
        fi_close(&ofi->ep->fid);
        ofi->ep = NULL;
    }
    return err;
}

static int endpoint_make(struct ofi *ofi)
{
    struct fi_av_attr av = {.type = ofi->info->domain_attr->av_type == FI_AV_UNSPEC
                                        ? FI_AV_TABLE
                                        : ofi->info->domain_attr->av_type,
                            .count = (size_t)ofi->p2p.ranks};
    int err = fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);

    if (err)
        return broken(ofi, "fabric", err);
    err = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL);
    if (err)
        return broken(ofi, "domain", err);
    err = fi_av_open(ofi->domain, &av, &ofi->av, NULL);
    if (err)
        return broken(ofi, "address table", err);
    err = queue_make(ofi);
    if (err)
        return broken(ofi, "completion queue", err);
    err = endpoint_enable(ofi);
    /*
     * Shared memory is named after the number of the process. What a killed one of the same number
     * left behind looks to libfabric like this one's, in use; it refuses once, and removes it.
     */
    if (err == -FI_EBUSY)
        err = endpoint_enable(ofi);
    return err ? broken(ofi, "endpoint", err) : 0;
}

/*
 * Takes the name from this rank's shared memory. Every rank has mapped it by now; without a name it
 * goes with the last of them, however they end.
 */
static void forget_name(struct ofi *ofi, const char *address, size_t bytes)
{
    static const char scheme[] = "fi_shm://";
    char name[NAME_MOST + 1] = "/";

    if (strcmp(ofi->info->fabric_attr->prov_name, "shm") != 0 || bytes <= sizeof scheme ||
        memcmp(address, scheme, sizeof scheme - 1) != 0)
        return;
    snprintf(name + 1, sizeof name - 1, "%.*s", (int)(bytes - sizeof scheme + 1),
             address + sizeof scheme - 1);
    if (!strchr(name + 1, '/'))
        shm_unlink(name);
}

static int peers_insert(struct ofi *ofi, const char *all, size_t stride)
{
    for (int32_t p = 0; p < ofi->p2p.ranks; p++) {
        const char *blob = all + (size_t)p * stride;
        const struct hello *h = (const void *)blob;
        int n;
        if (strncmp(h->provider, ofi->info->fabric_attr->prov_name, sizeof h->provider - 1) != 0)
            return zero__say(&ofi->p2p.voice, -EPROTO,
                             "ranks %d and %d use the providers %s and %.55s: name one that both "
                             "have with ZERO_OFI_PROVIDER",
                             ofi->p2p.rank, p, ofi->info->fabric_attr->prov_name, h->provider);
        n = fi_av_insert(ofi->av, h + 1, 1, &ofi->peers[p], 0, NULL);
        if (n != 1)
            return zero__say(&ofi->p2p.voice, n < 0 ? zero__ofi_errno(n) : -EHOSTUNREACH,
                             "libfabric's %s does not take the address of rank %d: %s",
                             ofi->info->fabric_attr->prov_name, p,
                             zero__ofi_text(n < 0 ? n : EHOSTUNREACH));
    }
    return 0;
}

static int address_make(struct ofi *ofi, struct address *own)
{
    struct hello h = {0};
    int err;

    *own = (struct address){.bytes = NAME_MOST};
    err = fi_getname(&ofi->ep->fid, own->blob + sizeof h, &own->bytes);
    if (err)
        return broken(ofi, "address", err);
    strncpy(h.provider, ofi->info->fabric_attr->prov_name, sizeof h.provider - 1);
    memcpy(own->blob, &h, sizeof h);
    return 0;
}

static int connect_all(struct ofi *ofi, const struct zero_oob *oob, int64_t until,
                       const struct address *own)
{
    size_t head = sizeof(struct hello), stride;
    size_t bytes = (head + own->bytes + 7) / 8 * 8; /* so that each address in the row is aligned */
    const struct zero__voice *v = &ofi->p2p.voice;
    char *all = NULL;
    int err = zero__oob_gather_blobs(v, oob, until, "open", own->blob, bytes, &all, &stride);

    if (!err)
        err = zero__oob_agree(v, oob, until, "open", peers_insert(ofi, all, stride));
    if (!err)
        forget_name(ofi, own->blob + head, own->bytes);
    free(all);
    return err;
}

/* Are all ranks on this machine? */
static int is_local(struct ofi *ofi, const struct zero_oob *oob, int64_t until,
                    const struct zero__host *mine, bool *local)
{
    struct zero__host *all = calloc((size_t)ofi->p2p.ranks, sizeof *all);
    int err = all ? zero__oob_gather(&ofi->p2p.voice, oob, until, "open", mine, sizeof *mine, all)
                  : zero__say(&ofi->p2p.voice, -ENOMEM, "no memory for %d ranks", ofi->p2p.ranks);

    *local = true;
    for (int32_t p = 0; p < ofi->p2p.ranks && !err; p++)
        *local &= zero__host_same(mine, &all[p]);
    free(all);
    return err;
}

static int join(struct ofi *ofi, const struct zero_oob *oob)
{
    const struct ofi_wish wish = zero__ofi_wish(ofi->p2p.voice.host);
    int64_t until = zero__deadline_ns(ofi->p2p.timeout_ns);
    struct zero__host here;
    struct address own;
    bool local;
    int err;

    zero__host_here(&here);
    err = is_local(ofi, oob, until, &here, &local);
    if (err)
        return err;
    err = zero__ofi_choose(&ofi->p2p.voice, &wish, local, ofi->interface, &ofi->info);
    /* A message that nobody receives, as after an error, keeps what follows it waiting. */
    if (!err && oob->rank == 0 && strcmp(ofi->info->fabric_attr->prov_name, "net") == 0)
        zero__tell(&ofi->p2p.voice, ZERO_LOG_WARN,
                   "ZERO_OFI_PROVIDER=net: when one communicator fails, others of the same ranks "
                   "may stand still until their deadlines; tcp has the same wire without that");
    if (!err)
        err = endpoint_make(ofi);
    if (!err)
        err = address_make(ofi, &own);
    /* Who has no address says so here: the others would wait for it. */
    err = zero__oob_agree(&ofi->p2p.voice, oob, until, "open", err);
    if (err)
        return err;
    snprintf(ofi->p2p.way, sizeof ofi->p2p.way,
             " (by %.30s; ZERO_OFI_DEVICE or ZERO_INTERFACE choose)",
             ofi->info->domain_attr->name ? ofi->info->domain_attr->name : "?");
    ofi->registers = ofi->info->domain_attr->mr_mode & FI_MR_LOCAL;
    ofi->p2p.late_bytes = ZERO__P2P_LATE;
    ofi->p2p.max_message = ofi->info->ep_attr->max_msg_size;
    return connect_all(ofi, oob, until, &own);
}

void zero__ofi_shut(struct ofi *ofi, struct fid *fid, const char *what)
{
    int err = fid ? fi_close(fid) : 0;

    if (err && !ofi->kept) /* what it stands on stays, too */
        zero__tell(&ofi->p2p.voice, ZERO_LOG_INFO, "libfabric's %s does not close %s: %s",
                   ofi->info->fabric_attr->prov_name, what, zero__ofi_text(err));
    ofi->kept |= err != 0;
}

/* A completed send is in the hands of the provider or the kernel, which deliver it. */
static void transport_stop(struct zero__p2p *t, bool aborted)
{
    struct ofi *ofi = ofi_of(t);

    (void)aborted;
    if (!ofi->ep)
        return;
    zero__ofi_regions_close(ofi);
    zero__ofi_shut(ofi, &ofi->ep->fid, "the endpoint");
    ofi->ep = NULL;
    zero__ofi_regions_close(ofi);
}

static void transport_close(struct zero__p2p *t)
{
    struct ofi *ofi = ofi_of(t);

    zero__ofi_shut(ofi, ofi->cq ? &ofi->cq->fid : NULL, "the completion queue");
    zero__ofi_shut(ofi, ofi->av ? &ofi->av->fid : NULL, "the address table");
    zero__ofi_shut(ofi, ofi->domain ? &ofi->domain->fid : NULL, "the domain");
    zero__ofi_shut(ofi, ofi->fabric ? &ofi->fabric->fid : NULL, "the fabric");
    if (ofi->info)
        fi_freeinfo(ofi->info);
    free(ofi->peers);
    free(ofi);
}

static const struct zero__p2p_ops ops = {
    .send = zero__ofi_send,
    .recv = zero__ofi_recv,
    .cancel = zero__ofi_cancel,
    .progress = zero__ofi_progress,
    .wait = zero__ofi_wait,
    .reg = zero__ofi_reg,
    .unreg = zero__ofi_unreg,
    .stop = transport_stop,
    .close = transport_close,
};

static int ofi_new(const struct zero__voice *voice, const struct zero_comm_open *params,
                   struct ofi **out)
{
    struct zero__p2p *t;
    struct ofi *ofi;
    int err = zero__p2p_new(voice, params, &ops, sizeof *ofi, &t);

    if (err)
        return err;
    ofi = ofi_of(t);
    ofi->cq_fd = -1;
    ofi->peers = calloc((size_t)t->ranks, sizeof *ofi->peers);
    if (!ofi->peers) {
        free(ofi);
        return zero__say(voice, -ENOMEM, "no memory for a context");
    }
    if (zero__open_interface(params))
        snprintf(ofi->interface, sizeof ofi->interface, "%s", zero__open_interface(params));
    *out = ofi;
    return 0;
}

int zero__ofi_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero__voice voice = {params->host, OFI_NAME};
    struct ofi *ofi = NULL;
    int err = ofi_new(&voice, params, &ofi);

    if (err)
        return err;
    err = join(ofi, params->oob);
    if (!err)
        return zero__p2p_open(params, &ofi->p2p, out);
    transport_stop(&ofi->p2p, true);
    transport_close(&ofi->p2p);
    return err;
}
