/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a context of ofi over a provider that registers memory with its endpoint. libfabric is
 * the real one, with shared memory; what it makes is looked at on its way, and given the regions
 * that it does not want itself. Providers differ in what they close first, and say -FI_EBUSY else;
 * what one never closes is said once.
 */
#include "comm.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define RANKS 2
#define BYTES 8192
#define MODE (FI_MR_LOCAL | FI_MR_ENDPOINT)
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */

enum order { REGIONS_FIRST, ENDPOINT_FIRST, NEVER };

static const char *const names[] = {"regions close before the endpoint",
                                    "the endpoint closes before regions", "nothing ever closes"};

static enum order order;
static int n_regions, n_bound, n_seen; /* that are open, bound; ever */
static bool endpoint_open, domain_open;
static int n_lines;
static char line[300];

/* The library that the plugin brought along. */
static void *ofi(const char *name)
{
    void *library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

/* ---- Regions --------------------------------------------------------------------------------- */

static int region_close(struct fid *fid)
{
    if (order == NEVER || (order == ENDPOINT_FIRST && endpoint_open))
        return -FI_EBUSY;
    n_regions--;
    n_bound--;
    free(fid);
    return 0;
}

static int region_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void)fid, (void)flags;
    if (to->fclass != FI_CLASS_EP)
        return -FI_EINVAL;
    n_bound++;
    return 0;
}

static int region_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)arg;
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops region_ops = {.size = sizeof(struct fi_ops),
                                   .close = region_close,
                                   .bind = region_bind,
                                   .control = region_control};

static int region_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                      void *context)
{
    struct fid_mr *region = calloc(1, sizeof *region);

    (void)fid, (void)buf, (void)len, (void)access, (void)offset, (void)flags, (void)context;
    if (!region)
        return -FI_ENOMEM;
    region->fid = (struct fid){.fclass = FI_CLASS_MR, .ops = &region_ops};
    region->key = key;
    n_regions++;
    n_seen++;
    *mr = region;
    return 0;
}

/* ---- What the provider makes, with other tables ---------------------------------------------- */

static struct fi_ops endpoint_ops, domain_fid_ops;
static struct fi_ops_fabric fabric_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_mr region_table = {.size = sizeof(struct fi_ops_mr), .reg = region_reg};
static int (*real_endpoint_close)(struct fid *), (*real_domain_close)(struct fid *);
static int (*real_domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *);
static int (*real_endpoint)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *);

static int endpoint_close(struct fid *fid)
{
    if (order == NEVER || (order == REGIONS_FIRST && n_bound > 0))
        return -FI_EBUSY;
    int err = real_endpoint_close(fid);
    endpoint_open &= err != 0;
    return err;
}

static int make_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    info->domain_attr->mr_mode &= ~MODE;
    int err = real_endpoint(domain, info, ep, context);
    info->domain_attr->mr_mode |= MODE;
    if (err)
        return err;
    endpoint_ops = *(*ep)->fid.ops;
    real_endpoint_close = endpoint_ops.close;
    endpoint_ops.close = endpoint_close;
    (*ep)->fid.ops = &endpoint_ops;
    endpoint_open = true;
    return 0;
}

static int domain_close(struct fid *fid)
{
    int err = real_domain_close(fid);
    domain_open &= err != 0;
    return err;
}

static int make_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    info->domain_attr->mr_mode &= ~MODE;
    int err = real_domain(fabric, info, domain, context);
    info->domain_attr->mr_mode |= MODE;
    if (err)
        return err;
    domain_ops = *(*domain)->ops;
    real_endpoint = domain_ops.endpoint;
    domain_ops.endpoint = make_endpoint;
    (*domain)->ops = &domain_ops;
    (*domain)->mr = &region_table;
    domain_fid_ops = *(*domain)->fid.ops;
    real_domain_close = domain_fid_ops.close;
    domain_fid_ops.close = domain_close;
    (*domain)->fid.ops = &domain_fid_ops;
    domain_open = true;
    return 0;
}

static bool is_shm(const struct fi_fabric_attr *attr)
{
    return attr && attr->prov_name && strcmp(attr->prov_name, "shm") == 0;
}

VISIBLE int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int (*real)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
        (int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *))ofi(__func__);
    int err = real(attr, fabric, context);

    if (err || !is_shm(attr))
        return err;
    fabric_ops = *(*fabric)->ops;
    real_domain = fabric_ops.domain;
    fabric_ops.domain = make_domain;
    (*fabric)->ops = &fabric_ops;
    return 0;
}

VISIBLE int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                       const struct fi_info *hints, struct fi_info **info)
{
    int (*real)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                struct fi_info **) =
        (int (*)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                 struct fi_info **))ofi(__func__);
    int err = real(version, node, service, flags, hints, info);

    for (struct fi_info *i = err ? NULL : *info; i; i = i->next)
        if (is_shm(i->fabric_attr))
            i->domain_attr->mr_mode |= MODE;
    return err;
}

/* ---- The test -------------------------------------------------------------------------------- */

static void note(void *arg, int level, const char *text)
{
    (void)arg, (void)level;
    if (!strstr(text, "does not close"))
        return;
    n_lines++;
    snprintf(line, sizeof line, "%s", text);
}

static void work(struct rank *r, struct comm_rank *c)
{
    const struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                                .src_dtype = ZERO_U8,
                                .dst_dtype = ZERO_U8,
                                .scale = 1,
                                .count = BYTES,
                                .src = comm_slice(c, 0, BYTES),
                                .dst = comm_slice(c, BYTES, BYTES * RANKS)};

    memset(c->memory, 7 + r->rank, BYTES);
    int64_t res = comm_run(c, c->world, &q);
    want(r, res == BYTES * RANKS, "all_gather: %d, %s", (int)res, zero_last_error());
    for (int p = 0; p < RANKS; p++)
        want(r, c->memory[BYTES * (p + 1)] == 7 + p, "rank %d's part", p);
    want(r, n_seen > 0 && n_bound == n_seen, "%d regions of %d are bound", n_bound, n_seen);
}

static void end(struct rank *r)
{
    struct comm_rank c = {0};

    if (comm_open(r, &c, "ofi", BYTES * (RANKS + 1), NULL, 0)) {
        c.log.level = ZERO_LOG_INFO;
        c.log.sink = note;
        work(r, &c);
    }
    comm_end(r, &c);
    if (order == NEVER) {
        want(r, n_lines == 1 && strstr(line, "busy"), "%d lines: %s", n_lines, line);
        return;
    }
    want(r, n_regions == 0, "%d regions are open", n_regions);
    want(r, !endpoint_open && !domain_open, "endpoint %d, domain %d are open", endpoint_open,
         domain_open);
    want(r, n_lines == 0, "%d lines: %s", n_lines, line);
}

int main(void)
{
    comm_require("ofi");
    setenv("ZERO_OFI_PROVIDER", "shm", 1);
    for (order = REGIONS_FIRST; order <= NEVER; order++)
        ranks_good(comm_ranks(RANKS, AS_PROCESSES, end, NULL), RANKS, "%s", names[order]);
    done();
}
