/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of page-sized addresses with pages behind them. A freed run keeps its pages mapped, so that
 * the next taker of the same addresses needs no call; they are taken away only when another run
 * needs pages and no other is free. A page is thus loose (reserved, mapped nowhere), cached (behind
 * free addresses) or live.
 */
#ifndef ZERO_MEMORY_PAGE_MAP_H
#define ZERO_MEMORY_PAGE_MAP_H

#include "memory/pages.h"

#define ZERO__PAGE_NONE UINT32_MAX
#define ZERO__PAGE_RECENT 32

struct zero__page_run {
    uint32_t at, n;
};

struct zero__page_map {
    struct zero__pages_backing backing;
    uint8_t *base;
    uint32_t n_pages, n_slots;    /* pages under the limit; page-sized slots of addresses */
    uint32_t n_allowed;           /* of n_pages: those under the limit by now */
    uint32_t n_reserved, n_loose; /* of n_allowed */
    uint32_t n_cached;
    uint64_t *loose;  /* bit per page */
    uint64_t *taken;  /* bit per slot: part of a live run */
    uint64_t *cached; /* bit per slot: free, with a page behind it */
    uint32_t *page;   /* by slot, if taken or cached: the page behind it */
    uint32_t *length; /* by slot: pages of the live run that starts here, or 0 */
    struct zero__page_run recent[ZERO__PAGE_RECENT]; /* freed lately, a ring */
    uint32_t next_recent;
};

/* Takes the backing over in any case. */
int zero__page_map_open(struct zero__page_map *m, const struct zero__pages_backing *backing,
                        uint64_t limit_bytes);
void zero__page_map_close(struct zero__page_map *m);

/* Takes a run of n > 0 slots with pages behind them: 0 and its first slot, or -ENOMEM or the
 * backing's error; then all is as before but for what is cached. */
int zero__page_map_take(struct zero__page_map *m, uint32_t n, uint32_t *slot);

/* Frees the live run that starts at slot. */
void zero__page_map_drop(struct zero__page_map *m, uint32_t slot);

static inline uint8_t *zero__page_map_address(const struct zero__page_map *m, uint32_t slot)
{
    return m->base + (uint64_t)slot * ZERO__PAGE_BYTES;
}

#endif
