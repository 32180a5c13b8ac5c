/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose library gives it no address, while ranks connect: it says so, and the others hear at
 * once which one it was, instead of waiting for its address. Libraries are the real ones; what they
 * say of a rank's address is looked at on its way. Compiled once per plugin; of UCX also how often
 * it looks for peers that have gone without a word.
 */
#include "comm.h"

#include <dlfcn.h>

#define RANKS 3
#define SOON_MS 5000                                   /* half the time after which ranks give up */
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */

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

static char *settings; /* that UCX was started with */
static const char *interval;

VISIBLE ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params,
                                      const ucp_config_t *config, ucp_context_h *context)
{
    ucs_status_t (*init)(unsigned, unsigned, const ucp_params_t *, const ucp_config_t *,
                         ucp_context_h *) =
        (ucs_status_t(*)(unsigned, unsigned, const ucp_params_t *, const ucp_config_t *,
                         ucp_context_h *))real("libucp.so.0", __func__);
    void (*print)(const ucp_config_t *, FILE *, const char *, ucs_config_print_flags_t) =
        (void (*)(const ucp_config_t *, FILE *, const char *,
                  ucs_config_print_flags_t))real("libucp.so.0", "ucp_config_print");
    size_t n;
    FILE *f = open_memstream(&settings, &n);

    print(config, f, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(f);
    return init(major, minor, params, config, context);
}

static void looks(struct rank *r)
{
    struct comm_rank c;

    if (comm_open(r, &c, PLUGIN, 4096, NULL, 0)) {
        const char *at = settings ? strstr(settings, "UCX_KEEPALIVE_INTERVAL=") : NULL;
        want(r, at && strtod(strchr(at, '=') + 1, NULL) == 1e6 * atof(interval),
             "%.40s, not %s s", at ? at : "no such setting", interval); /* in microseconds */
    }
    comm_end(r, &c);
    free(settings);
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
    struct comm_rank c = {0};

    nameless = r->rank == 1;
    if (comm_load(r, &c, PLUGIN, NULL, 0)) {
        int64_t start = now_ms();
        int err = comm_context(&c);
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
    ranks_good(comm_ranks(RANKS, AS_PROCESSES, connect_in_vain, NULL), RANKS,
               "%s: a rank without an address, and all ranks hear of it at once", PLUGIN);
#ifdef ON_UCX
    interval = "2";
    ranks_good(comm_ranks(2, AS_PROCESSES, looks, NULL), 2, "UCX looks for its peers every 2 s");
    setenv("UCX_KEEPALIVE_INTERVAL", "7s", 1);
    interval = "7";
    ranks_good(comm_ranks(2, AS_PROCESSES, looks, NULL), 2, "or as often as its user wants");
#endif
    done();
}
