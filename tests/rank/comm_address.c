/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose library gives it no address, while ranks connect: it says so, and the others hear at
 * once which one it was, instead of waiting for its address. Libraries are the real ones; what they
 * say of a rank's address is looked at on its way. Compiled once per plugin.
 */
#include "comm.h"

#include <dlfcn.h>

#define RANKS 3
#define SOON_MS 5000                                   /* half the time after which ranks give up */
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */

static struct oob_board *board;
static bool nameless; /* this rank */

/* The library that the plugin brought along. */
static void *real(const char *file, const char *name)
{
    void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

#ifdef ON_UCX
#include <ucp/api/ucp.h>
#define PLUGIN "ucx"

VISIBLE ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **address,
                                            size_t *bytes)
{
    ucs_status_t (*get)(ucp_worker_h, ucp_address_t **, size_t *) =
        (ucs_status_t(*)(ucp_worker_h, ucp_address_t **, size_t *))real("libucp.so.0", __func__);

    return nameless ? UCS_ERR_NO_MEMORY : get(worker, address, bytes);
}
#else
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#define PLUGIN "ofi"

/* What the provider makes, with other tables. */
static struct fi_ops_fabric fabric_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_cm endpoint_ops;
static int (*real_domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *);
static int (*real_endpoint)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *);

static int no_name(fid_t fid, void *address, size_t *bytes)
{
    (void)fid, (void)address, (void)bytes;
    return -FI_ENOMEM;
}

static int make_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    int err = real_endpoint(domain, info, ep, context);

    if (err)
        return err;
    endpoint_ops = *(*ep)->cm;
    endpoint_ops.getname = no_name;
    (*ep)->cm = &endpoint_ops;
    return 0;
}

static int make_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    int err = real_domain(fabric, info, domain, context);

    if (err)
        return err;
    domain_ops = *(*domain)->ops;
    real_endpoint = domain_ops.endpoint;
    domain_ops.endpoint = make_endpoint;
    (*domain)->ops = &domain_ops;
    return 0;
}

VISIBLE int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int (*make)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
        (int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *))real("libfabric.so.1",
                                                                             __func__);
    int err = make(attr, fabric, context);

    if (err || !nameless)
        return err;
    fabric_ops = *(*fabric)->ops;
    real_domain = fabric_ops.domain;
    fabric_ops.domain = make_domain;
    (*fabric)->ops = &fabric_ops;
    return 0;
}
#endif

static void connect_in_vain(struct rank *r)
{
    struct zero_comm_open open = {.size = sizeof open, .device = -1, .timeout_ns = WAIT_NS};
    struct comm_rank c = {0};

    nameless = r->rank == 1;
    if (comm_load(r, &c, PLUGIN, board, NULL, 0)) {
        int64_t start = now_ms();
        open.host = zero__loader_host(c.loader);
        open.oob = &c.oob;
        int err = c.ops->open(&open, &c.ctx);
        want(r, err == -ENOMEM, "open: %d, %s", err, zero_last_error());
        want(r, now_ms() - start < SOON_MS, "it took %d ms", (int)(now_ms() - start));
        want(r, strstr(zero_last_error(), nameless ? "address" : "open failed on rank 1"),
             "it says: %s", zero_last_error());
    }
    comm_end(r, &c);
}

int main(void)
{
    comm_require(PLUGIN);
    setenv("ZERO_OFI_PROVIDER", "shm", 1);
    board = shared_memory(sizeof *board);
    ranks_good(ranks_run(RANKS, AS_PROCESSES, connect_in_vain, NULL), RANKS,
               "%s: a rank without an address, and all ranks hear of it at once", PLUGIN);
    done();
}
