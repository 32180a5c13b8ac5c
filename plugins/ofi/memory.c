/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration, for the providers that want it for local buffers; the others take any memory. A
 * region that is bound to the endpoint closes before it: providers count it as a user of that. The
 * manual has it the other way round, so one that does not close yet (-FI_EBUSY) does so after it.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "../common/list.h"
#include "machine/pages.h"
#include "ofi.h"

static bool is_bound(const struct ofi *ofi)
{
    return ofi->info->domain_attr->mr_mode & FI_MR_ENDPOINT;
}

/*
 * FI_MR_ALLOCATED: every page has to be there. Memory of the caller's may never have been written.
 * What the kernel refuses (it does not know the call before 5.14) is left to the provider's
 * pinning.
 */
static void pages_make(void *base, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)base + bytes;
    void *from = (char *)base - (uintptr_t)base % page;

    zero__pages_populate(from, end - (uintptr_t)from);
}

static int region_make(struct ofi *ofi, void *base, uint64_t bytes, struct fid_mr **mr)
{
    int err;

    if (ofi->info->domain_attr->mr_mode & FI_MR_ALLOCATED)
        pages_make(base, bytes);
    err = fi_mr_reg(ofi->domain, base, bytes, FI_SEND | FI_RECV, 0, ofi->next_key++, 0, mr, NULL);

    if (err || !is_bound(ofi))
        return err;
    err = fi_mr_bind(*mr, &ofi->ep->fid, 0);
    if (!err)
        err = fi_mr_enable(*mr);
    if (err)
        fi_close(&(*mr)->fid);
    return err;
}

int zero__ofi_reg(struct zero__p2p *t, void *base, uint64_t bytes, void **handle)
{
    struct ofi *ofi = ofi_of(t);
    struct ofi_region *region;
    int err;

    *handle = NULL;
    if (!ofi->registers)
        return 0;
    region = calloc(1, sizeof *region);
    if (!region)
        return zero__say(&ofi->p2p.voice, -ENOMEM, "no memory for a registration");
    err = region_make(ofi, base, bytes, &region->mr);
    if (err) {
        free(region);
        return zero__say(&ofi->p2p.voice, zero__ofi_errno(err),
                         "cannot register %llu bytes at %p with %s: %s; is the limit of locked "
                         "memory (ulimit -l) large enough?",
                         (unsigned long long)bytes, base, ofi->info->fabric_attr->prov_name,
                         zero__ofi_text(err));
    }
    region->next = ofi->regions;
    ofi->regions = region;
    *handle = region;
    return 0;
}

static void region_free(struct ofi *ofi, struct ofi_region *region)
{
    ZERO__UNLINK(&ofi->regions, region);
    zero__ofi_shut(ofi, region->mr ? &region->mr->fid : NULL, "a memory region");
    free(region);
}

static void region_close(struct ofi_region *region)
{
    if (region->mr && !fi_close(&region->mr->fid))
        region->mr = NULL;
}

void zero__ofi_unreg(struct zero__p2p *t, void *handle)
{
    struct ofi *ofi = ofi_of(t);
    struct ofi_region *region = handle;

    if (!region)
        return;
    if (ofi->ep && is_bound(ofi))
        region_close(region);
    if (ofi->ep && is_bound(ofi) && region->mr)
        region->over = true;
    else
        region_free(ofi, region);
}

void zero__ofi_regions_close(struct ofi *ofi)
{
    struct ofi_region *next;

    for (struct ofi_region *r = is_bound(ofi) ? ofi->regions : NULL; r; r = next) {
        next = r->next;
        if (ofi->ep)
            region_close(r);
        else if (r->over)
            region_free(ofi, r);
    }
}
