/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the plan of a rank fits into what there is of each tier; where it does not, the refusal
 * has the table of what is needed, and settings that would help.
 */
#include <stdio.h>

#include "memory/limits.h"
#include "place/placer.h"
#include "place/remedy.h"
#include "place/table.h"

static int refuse(struct zero__placer *placer, const struct zero__table *t,
                  const struct zero__lack *lack)
{
    int first = !placer->site->slabs[ZERO__SLAB_STATES]
                     .bytes; /* nothing is reserved that a trial would need */
    char tried[900] = "", stage[64];

    if (first && zero__remedies_find(placer, tried, sizeof tried))
        *tried = 0;
    return zero__table_refuse(
        t, lack, &placer->site->recipe, first ? tried : NULL,
        zero__option_how(placer->site->options, "stage", "3", stage, sizeof stage));
}

static int refuse_tier(struct zero__placer *placer, const struct zero__table *t, uint32_t tier,
                       const char *what, uint64_t available, int per_rank)
{
    return refuse(placer, t,
                  &(struct zero__lack){.what = what,
                                       .tier = tier,
                                       .tiers = 1u << tier,
                                       .need = t->tiers[tier].reserved,
                                       .available = available,
                                       .per_rank = per_rank,
                                       .sharers = (uint32_t)placer->site->local_ranks});
}

/* Refuses a plan for want of host memory, in which several tiers may lie. */
static int refuse_machine(struct zero__placer *placer, const struct zero__table *t, uint64_t need,
                          const char *what, uint64_t available)
{
    int device = zero__device_is_host(placer->site), disk = zero__disk_is_host(placer);

    return refuse(placer, t,
                  &(struct zero__lack){.what = what,
                                       .tier = device ? ZERO__T_DEVICE : ZERO__T_CPU,
                                       .tiers = 1u << ZERO__T_CPU |
                                                (device ? 1u << ZERO__T_DEVICE : 0) |
                                                (disk ? 1u << ZERO__T_DISK : 0),
                                       .need = need,
                                       .available = available,
                                       .more = placer->site->slabs[ZERO__SLAB_STATES].bytes != 0,
                                       .sharers = (uint32_t)placer->site->local_ranks});
}

/* A device of its own memory has room for so much more. */
static int fits_device(struct zero__placer *placer, const struct zero__table *t, uint64_t extra)
{
    struct zero_device_info info = {.size = sizeof info};
    char source[160];
    int err = zero__device_is_host(placer->site) || !extra
                  ? 0
                  : placer->site->dev_ops.info(placer->site->dev, &info);
    uint64_t left = zero__device_share(info.free_bytes, placer->site->device_sharers);

    if (err || zero__device_is_host(placer->site) || extra <= left)
        return err;
    snprintf(source, sizeof source, "device %s (what is free, less what libraries take later)",
             placer->site->device_name);
    return refuse(placer, t,
                  &(struct zero__lack){.what = source,
                                       .tier = ZERO__T_DEVICE,
                                       .tiers = 1u << ZERO__T_DEVICE,
                                       .need = extra,
                                       .available = left,
                                       .more = placer->site->slabs[ZERO__SLAB_STATES].bytes != 0,
                                       .per_rank = 1,
                                       .sharers = placer->site->device_sharers});
}

void zero__table_now(const struct zero__placer *placer, struct zero__table *t)
{
    zero__table_fill(&placer->site->states, placer->site->programs[0], zero__checksum_bytes(placer),
                     zero__relay_bytes(placer->run), t);
}

int zero__memory_fits(struct zero__placer *placer, uint64_t device, uint64_t extra)
{
    const struct zero__memory_limit *limit = &placer->site->limit;
    struct zero__table t;
    char source[256];

    zero__table_now(placer, &t);
    if (t.tiers[ZERO__T_DEVICE].reserved > limit->device_bytes)
        return refuse_tier(placer, &t, ZERO__T_DEVICE, "ZERO_MEMORY_LIMIT (device)",
                           limit->device_bytes, 1);
    if (t.tiers[ZERO__T_CPU].reserved > limit->cpu_bytes)
        return refuse_tier(placer, &t, ZERO__T_CPU, "ZERO_MEMORY_LIMIT (cpu)", limit->cpu_bytes, 1);
    const struct zero__tier_store *disk = &placer->site->tiers[ZERO__T_DISK];
    if (!disk->store && t.tiers[ZERO__T_DISK].reserved > zero__disk_room(placer)) {
        snprintf(source, sizeof source, "tier %s (%s)", disk->name, disk->info.note);
        return refuse_tier(placer, &t, ZERO__T_DISK, source, zero__disk_room(placer), 0);
    }
    int err = fits_device(placer, &t, device);
    if (err)
        return err;
    extra += zero__device_is_host(placer->site) ? device : 0;
    extra += zero__relay_is_open(placer->run) ? 0 : t.relay;
    const struct zero__slab *taken =
        &placer->site->slabs[zero__slab(ZERO__T_DISK, 0)]; /* of nothing at first */
    uint64_t have = zero__disk_beside(disk->info.bytes_per_mib, taken[0].bytes + taken[1].bytes);
    extra += t.checksums > have ? t.checksums - have : 0;
    if (zero__disk_is_host(placer) &&
        t.tiers[ZERO__T_DISK].reserved > taken[0].bytes + taken[1].bytes)
        extra += t.tiers[ZERO__T_DISK].reserved - taken[0].bytes - taken[1].bytes;
    uint64_t share = zero__memory_share(zero__memory_left(source, sizeof source),
                                        (uint32_t)placer->site->local_ranks);
    if (extra > share)
        return refuse_machine(placer, &t, extra, source, share);
    return 0;
}
