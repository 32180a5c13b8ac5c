/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of planned buffers: the base of their slab, and the offset that the plan gave them. */
#include "site/site.h"

struct zero_slice zero__slice(const struct zero__site *site, uint32_t slab, uint64_t off,
                              uint64_t len)
{
    return (struct zero_slice){site->slabs[slab].mr, off, len};
}

static uint8_t *address_of(const struct zero__site *site, const struct zero__buffer *f,
                           uint64_t off)
{
    return site->slabs[zero__slab_of(f)].base + f->offset + off;
}

uint8_t *zero__address(const struct zero__site *site, const struct zero__body *b, uint32_t buffer,
                       uint64_t off)
{
    return address_of(site, zero__buffer_of(&site->states, b, buffer), off);
}

uint8_t *zero__home_address(const struct zero__site *site, uint32_t id, uint64_t off)
{
    return address_of(site, &site->states.buffers[id], off);
}

uint8_t *zero__param_address(const struct zero__site *site, const struct zero__body *b,
                             uint32_t segment, uint32_t buffer)
{
    if (site->mapped && site->mapped[segment] && buffer == site->states.homes[segment].param)
        return site->mapped[segment];
    return zero__address(site, b, buffer, 0);
}

uint64_t zero__registered_offset(const struct zero__site *site, const struct zero__buffer *f)
{
    const struct zero__slab *states = &site->slabs[zero__slab(ZERO__T_CPU, 0)];

    return f->offset + (f->transient ? states->bytes : 0) - site->tiers[ZERO__T_DISK].mr_first;
}
