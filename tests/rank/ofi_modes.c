/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What providers may want of memory before they use it (FI_MR_LOCAL, FI_MR_ALLOCATED,
 * FI_MR_PROV_KEY, FI_MR_VIRT_ADDR). Those that every machine has want little of it, but do as told:
 * here they are told to, and register with keys of their own, by address. Whether each message
 * has its descriptor, and each region its pages, is looked at on the way; that tags have no more
 * than 48 bits, all that cxi has; and that no message is longer than the provider says it carries.
 */
#include "cases.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define RANKS 2
#define REGIONS 1024
#define ALL (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define TAG_FORMAT UINT64_C(0xaaaaaaaaaaaa)            /* 48 bits, of one meaning */
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */

static const char *provider;
static int mode;
static size_t longest; /* a message that it says it carries; 0: what it says by itself */
static bool basic;  /* the provider is told of FI_MR_BASIC */
static int *absent; /* of all ranks: libfabric has no such provider */

/* What was registered; a slot without mr is free. */
static struct {
    struct fid_mr *mr;
    const char *base;
    size_t bytes;
    uint64_t asked; /* the key */
    int (*close)(struct fid *);
    struct fi_ops ops;
} regions[REGIONS];
static int n_seen, n_unbacked, n_same_key, n_own_key;
static long n_messages, n_bare, n_wide, n_long;

/* The library that the plugin brought along. */
static void *ofi(const char *name)
{
    void *library = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

/* ---- Regions --------------------------------------------------------------------------------- */

/* Is every page there? */
static bool is_backed(const char *base, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)base & ~(page - 1);
    size_t n = ((uintptr_t)base + bytes - from + page - 1) / page;
    unsigned char *there = calloc(n + 1, 1);
    bool all = there && mincore((void *)from, n * page, there) == 0;

    for (size_t i = 0; i < n && all; i++)
        all = there[i] & 1;
    free(there);
    return all;
}

static int region_close(struct fid *fid)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].mr && &regions[i].mr->fid == fid) {
            int err = regions[i].close(fid);
            if (!err)
                regions[i].mr = NULL;
            return err;
        }
    return -FI_EINVAL;
}

static int (*real_reg)(struct fid *, const void *, size_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       struct fid_mr **, void *);

static int region_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                      void *context)
{
    int err = real_reg(fid, buf, len, access, offset, key, flags, mr, context), at = 0;

    if (err)
        return err;
    while (at < REGIONS - 1 && regions[at].mr)
        at++;
    for (int i = 0; i < REGIONS; i++)
        n_same_key += regions[i].mr && regions[i].asked == key;
    n_seen++;
    n_unbacked += !is_backed(buf, len);
    n_own_key += fi_mr_key(*mr) != key;
    regions[at].mr = *mr;
    regions[at].base = buf;
    regions[at].bytes = len;
    regions[at].asked = key;
    regions[at].ops = *(*mr)->fid.ops;
    regions[at].close = regions[at].ops.close;
    regions[at].ops.close = region_close;
    (*mr)->fid.ops = &regions[at].ops;
    return 0;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void look(const void *buf, size_t len, const void *desc, uint64_t tag)
{
    const char *at = buf;
    bool good = len == 0;

    for (int i = 0; i < REGIONS && !good; i++)
        good = regions[i].mr && fi_mr_desc(regions[i].mr) == desc && at >= regions[i].base &&
               at + len <= regions[i].base + regions[i].bytes;
    n_messages++;
    n_bare += !good;
    n_wide += tag >> 48 != 0;
    n_long += longest && len > longest;
}

static struct fi_ops_tagged tagged;
static ssize_t (*real_send)(struct fid_ep *, const void *, size_t, void *, fi_addr_t, uint64_t,
                            void *);
static ssize_t (*real_recv)(struct fid_ep *, void *, size_t, void *, fi_addr_t, uint64_t, uint64_t,
                            void *);

static ssize_t look_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
                         uint64_t tag, void *context)
{
    look(buf, len, desc, tag);
    return real_send(ep, buf, len, desc, to, tag, context);
}

static ssize_t look_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
                         uint64_t tag, uint64_t ignore, void *context)
{
    look(buf, len, desc, tag);
    return real_recv(ep, buf, len, desc, from, tag, ignore, context);
}

/* ---- What the provider makes, with other tables ---------------------------------------------- */

static struct fi_ops_fabric fabric_ops;
static struct fi_ops_domain domain_ops;
static struct fi_ops_mr mr_ops;
static int (*real_domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *);
static int (*real_endpoint)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *);

/*
 * What the provider is to do, in the words that it hears: one that stands on another hands on the
 * old name of three modes, not the modes.
 */
static void speak(struct fi_info *info, bool old)
{
    info->domain_attr->mr_mode = basic && old ? FI_MR_BASIC : mode;
    info->mode = basic && old ? info->mode | FI_LOCAL_MR : info->mode & ~FI_LOCAL_MR;
}

/* The descriptors reach the provider as they are. Some make endpoints below theirs alike. */
static int make_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    bool own = info->ep_attr->type == FI_EP_RDM;

    if (own)
        speak(info, true);
    int err = real_endpoint(domain, info, ep, context);
    if (own)
        speak(info, false);
    if (err || !own)
        return err;
    tagged = *(*ep)->tagged;
    real_send = tagged.send;
    real_recv = tagged.recv;
    tagged.send = look_send;
    tagged.recv = look_recv;
    (*ep)->tagged = &tagged;
    return 0;
}

static int make_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    speak(info, true);
    int err = real_domain(fabric, info, domain, context);
    speak(info, false);
    if (err)
        return err;
    domain_ops = *(*domain)->ops;
    real_endpoint = domain_ops.endpoint;
    domain_ops.endpoint = make_endpoint;
    (*domain)->ops = &domain_ops;
    mr_ops = *(*domain)->mr;
    real_reg = mr_ops.reg;
    mr_ops.reg = region_reg;
    (*domain)->mr = &mr_ops;
    return 0;
}

/* A provider that stands on others asks for those by the same functions. */
static bool is_ours(const struct fi_fabric_attr *attr)
{
    return attr && attr->prov_name && strcmp(attr->prov_name, provider) == 0;
}

VISIBLE int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int (*real)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
        (int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *))ofi(__func__);
    int err = real(attr, fabric, context);

    if (err || !is_ours(attr))
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
        if (is_ours(i->fabric_attr)) {
            i->domain_attr->mr_mode = mode;
            i->ep_attr->mem_tag_format = TAG_FORMAT;
            if (longest)
                i->ep_attr->max_msg_size = longest;
        }
    return err;
}

/* ---- The test -------------------------------------------------------------------------------- */

static void body(struct rank *r)
{
    static void (*const cases[])(struct check_rank *) = {
        check_case_movements, check_case_reductions, check_case_concurrent, check_case_memory};
    struct comm_rank c = {0};
    struct check_rank k;
    int n_open = 0;

    if (comm_load(r, &c, "ofi", NULL, 0)) {
        k = case_rank(r, &c, "ofi", 1);
        int err = c.ops->probe(k.host, &k.caps);
        if (err == -ENODEV)
            *absent = 1;
        else if (want(r, !err, "probe: %s", zero_last_error()))
            for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
                cases[i](&k);
        case_complain(r, &k);
    }
    comm_end(r, &c);
    if (*absent)
        return;
    for (int i = 0; i < REGIONS; i++)
        n_open += regions[i].mr != NULL;
    want(r, n_messages > 0 && n_bare == 0, "%ld of %ld messages have no descriptor of their region",
         n_bare, n_messages);
    want(r, n_long == 0, "%ld messages are longer than %zu bytes", n_long, longest);
    want(r, n_wide == 0, "%ld tags have more than 48 bits", n_wide);
    want(r, n_seen > 0 && n_open == 0, "%d of %d regions are open", n_open, n_seen);
    want(r, n_same_key == 0, "%d keys were asked for twice", n_same_key);
    if (mode & FI_MR_ALLOCATED)
        want(r, n_unbacked == 0, "%d of %d regions were without pages", n_unbacked, n_seen);
    if (mode & FI_MR_PROV_KEY)
        want(r, n_own_key > 0, "the provider gave no key of its own");
}

int main(void)
{
    /*
     * rxm in 1.17 names to the peer the beginning of a region, not the place of the message,
     * unless that below goes by addresses: it does as FI_MR_BASIC.
     */
    static const struct {
        const char *provider, *wish;
        int mode;
        bool basic;
        size_t longest;
        const char *what;
    } tries[] = {
        {"shm", "shm", FI_MR_LOCAL | FI_MR_VIRT_ADDR, false, 0, "local and virt_addr"},
        {"shm", "shm", ALL, false, 0, "all four"},
        {"shm", "shm", ALL, false, 5000, "messages of 5,000 bytes at most"},
        {"tcp;ofi_rxm", "tcp", ALL, true, 0, "all four"},
        {"tcp;ofi_rxm", "tcp", ALL, true, 70001, "messages of 70,001 bytes at most"},
        {"net", "net", FI_MR_LOCAL, false, 0, "local"},
        {"net", "net", ALL, false, 0, "all four"},
        {"sockets", "sockets", FI_MR_LOCAL, false, 0, "local"},
        {"sockets", "sockets", ALL, false, 0, "all four"},
    };

    comm_require("ofi");
    absent = shared_memory(sizeof *absent);
    for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
        if (!is_whole() && (is_short() ? i % 3 != 1 : tries[i].mode == FI_MR_LOCAL))
            continue; /* who wants all four wants local, too */
        provider = tries[i].provider;
        mode = tries[i].mode;
        basic = tries[i].basic;
        longest = tries[i].longest;
        setenv("ZERO_OFI_PROVIDER", tries[i].wish, 1);
        *absent = 0;
        struct rank *all = comm_ranks(RANKS, AS_PROCESSES, body, NULL);
        if (*absent)
            skip(provider, "libfabric has no such provider");
        else
            ranks_good(all, RANKS, "%s wants %s", provider, tries[i].what);
    }
    done();
}
