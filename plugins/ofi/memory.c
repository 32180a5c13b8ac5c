/* SPDX-License-Identifier: Apache-2.0 */
/* Registration, for the providers that want it for local buffers; the others take any memory. */
#include "ofi.h"

int zero__ofi_reg(struct zero__p2p *t, void *base, uint64_t bytes, uint32_t mem, void **handle)
{
    struct ofi *ofi = (struct ofi *)(void *)t;
    struct fid_mr *mr;
    int err;

    (void)mem;
    *handle = NULL;
    if (!ofi->registers)
        return 0;
    err = fi_mr_reg(ofi->domain, base, bytes, FI_SEND | FI_RECV, 0, ofi->next_key++, 0, &mr, NULL);
    if (!err && (ofi->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
        err = fi_mr_bind(mr, &ofi->ep->fid, 0);
        if (!err)
            err = fi_mr_enable(mr);
        if (err)
            fi_close(&mr->fid);
    }
    if (err)
        return zero__say(&ofi->voice, zero__ofi_errno(err),
                         "cannot register %llu bytes at %p with %s: %s; is the limit of locked "
                         "memory (ulimit -l) large enough?",
                         (unsigned long long)bytes, base, ofi->info->fabric_attr->prov_name,
                         zero__ofi_text(err));
    *handle = mr;
    return 0;
}

void zero__ofi_unreg(struct zero__p2p *t, void *handle)
{
    struct fid_mr *mr = handle;

    (void)t;
    if (mr)
        fi_close(&mr->fid);
}
