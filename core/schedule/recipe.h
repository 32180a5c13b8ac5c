/* SPDX-License-Identifier: Apache-2.0 */
/* What shapes a step program: the options that bear on it, and the tiers in which bytes lie. */
#ifndef ZERO_SCHEDULE_RECIPE_H
#define ZERO_SCHEDULE_RECIPE_H

#include "base/placement.h"
#include "model/model.h"

/* Where bytes lie. A tier has two slabs: states, and what lives for a part of a body only. */
enum zero__tier {
    ZERO__T_DEVICE,
    ZERO__T_CPU,  /* memory of the host, beside the device's */
    ZERO__T_DISK, /* a store that is read and written by requests */
    ZERO__N_TIERS,
};

/* The slabs of all tiers: of each that of its states, then that of its transients. */
#define ZERO__N_SLABS (2 * ZERO__N_TIERS)
static inline uint32_t zero__slab(uint32_t tier, uint32_t transient)
{
    return 2 * tier + (transient != 0);
}

/* What shapes a program; the same on all ranks but for `rank`. */
struct zero__recipe {
    uint32_t stage, ranks, rank, accum;
    uint32_t boundary;  /* reduce at the boundary of a step, not after every micro-batch */
    uint32_t n_moments; /* optimizer states beside the master copy: 0, 1 (momentum), 2 */
    uint32_t state_dtype; /* of the moments; 0: fp32 */
    uint32_t early; /* states outside the device are updated as soon as a gradient is reduced */
    uint32_t halves; /* the library's optimizers: a master copy may be kept as its lower half */
    uint64_t bucket_bytes, prefetch_bytes;
    int64_t retain_bytes; /* -1: nothing is kept from one use to the next */
    uint64_t map_bytes;   /* granule in which peers' memory can be mapped; 0: it cannot */
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS]; /* parts of ZERO__PLACE_PARTS; all 0: device */
    uint32_t tile;  /* elements that an update of states elsewhere works on at a time */
    uint32_t tiles; /* of them that are under way: read, updated, written */
    uint32_t host_updates; /* tiles are updated by the host, not by the device */
};

/* Bytes of an element of a moment. */
static inline uint64_t zero__moment_bytes(const struct zero__recipe *r)
{
    return r->state_dtype == ZERO_BF16 ? 2 : 4;
}

/* A rank keeps only its shard of the parameters (stage 3 and more than one rank). */
static inline int zero__recipe_shards(const struct zero__recipe *r, const struct zero__segment *s)
{
    return r->stage == 3 && r->ranks > 1 && !s->persistent;
}

/* The ranks' shards are mapped side by side: there is nothing to gather. */
static inline int zero__recipe_maps(const struct zero__recipe *r, const struct zero__segment *s)
{
    return zero__recipe_shards(r, s) && r->map_bytes &&
           s->shard * zero_dtype_bytes(s->dtype) % r->map_bytes == 0;
}

#endif
