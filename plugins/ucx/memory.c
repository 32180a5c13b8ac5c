/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering ahead keeps the memory in UCX's cache of registrations, so that the first message
 * from it costs no more than the next ones. Transports that register nothing make it cheap.
 */
#include <string.h>

#include "ucx.h"

int zero__ucx_reg(struct zero__p2p *t, void *base, uint64_t bytes, void **handle)
{
    struct ucx *ucx = ucx_of(t);
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .address = base,
        .length = bytes,
    };
    ucp_mem_h registration;
    ucs_status_t status = ucp_mem_map(ucx->context, &params, &registration);

    if (status != UCS_OK)
        return zero__say(&ucx->p2p.voice, zero__ucx_errno(status),
                         "cannot register %llu bytes at %p: %s; is the limit of locked memory "
                         "(ulimit -l) large enough?",
                         (unsigned long long)bytes, base, ucs_status_string(status));
    *handle = registration;
    return 0;
}

void zero__ucx_unreg(struct zero__p2p *t, void *handle)
{
    struct ucx *ucx = ucx_of(t);

    ucp_mem_unmap(ucx->context, handle);
}
