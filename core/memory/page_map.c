/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are handed out first fit. Robson's bound for first fit says that requests of at most M
 * pages in all never need more than about M * log2(M) pages of addresses, so that much is set
 * aside: addresses cost nothing, and what is free always fits.
 */
#include "memory/page_map.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/status.h"

#define MAX_PAGES (UINT32_C(1) << 26) /* 128 TiB */
#define MAX_SLOTS (UINT32_C(1) << 25) /* 64 TiB: leaves half of the addresses to others */

static bool bit_get(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}

static void bit_clear(uint64_t *bits, uint32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

static uint32_t slots_for(uint32_t n_pages)
{
    uint32_t factor = 4;
    for (uint32_t x = n_pages; x > 1; x /= 2)
        factor++;
    uint64_t n = (uint64_t)n_pages * factor;
    return n < MAX_SLOTS ? (uint32_t)n : n_pages < MAX_SLOTS ? MAX_SLOTS : n_pages;
}

int zero__page_map_open(struct zero__page_map *m, const struct zero__pages_backing *backing,
                        uint64_t limit_bytes)
{
    uint64_t n_pages = limit_bytes / ZERO__PAGE_BYTES;
    int err;

    *m = (struct zero__page_map){.backing = *backing};
    if (n_pages > MAX_PAGES) {
        err = zero__fail(-EINVAL, "paged memory: a limit of %" PRIu64 " bytes is beyond 128 TiB",
                         limit_bytes);
        goto err_close;
    }
    m->n_pages = m->n_allowed = (uint32_t)n_pages;
    m->n_slots = slots_for(m->n_pages);
    m->loose = calloc(n_pages / 64 + 1, sizeof *m->loose);
    m->taken = calloc(m->n_slots / 64 + 1, sizeof *m->taken);
    m->cached = calloc(m->n_slots / 64 + 1, sizeof *m->cached);
    m->page = malloc((m->n_slots + 1) * sizeof *m->page);
    m->length = calloc(m->n_slots + 1, sizeof *m->length);
    if (!m->loose || !m->taken || !m->cached || !m->page || !m->length) {
        err = zero__fail(-ENOMEM, "paged memory: no memory to keep track of %" PRIu32 " pages",
                         m->n_pages);
        goto err_close;
    }
    if (m->n_slots) {
        err = backing->reserve(backing->self, m->n_slots * ZERO__PAGE_BYTES, &m->base);
        if (err)
            goto err_close;
    }
    return 0;
err_close:
    zero__page_map_close(m);
    return err;
}

void zero__page_map_close(struct zero__page_map *m)
{
    m->backing.close(m->backing.self, m->base, m->n_slots * ZERO__PAGE_BYTES);
    free(m->loose);
    free(m->taken);
    free(m->cached);
    free(m->page);
    free(m->length);
}

/* The first run of n slots that are not taken, or ZERO__PAGE_NONE. */
static uint32_t first_fit(const struct zero__page_map *m, uint32_t n)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i < m->n_slots; i++) {
        if (i % 64 == 0 && m->taken[i / 64] == UINT64_MAX) {
            run = 0;
            i += 63;
            continue;
        }
        run = bit_get(m->taken, i) ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return ZERO__PAGE_NONE;
}

static bool all_cached(const struct zero__page_map *m, uint32_t at, uint32_t n)
{
    for (uint32_t i = at; i < at + n; i++)
        if (!bit_get(m->cached, i))
            return false;
    return true;
}

/* A run of exactly n that was freed lately and still has its pages, the latest first. */
static uint32_t recent_fit(struct zero__page_map *m, uint32_t n)
{
    for (uint32_t k = 1; k <= ZERO__PAGE_RECENT; k++) {
        struct zero__page_run *r = &m->recent[(m->next_recent - k) % ZERO__PAGE_RECENT];
        if (r->n == n && all_cached(m, r->at, n)) {
            r->n = 0;
            return r->at;
        }
    }
    return ZERO__PAGE_NONE;
}

/* Takes cached pages away from slots outside at .. at + n - 1, from the top, until want are loose;
 * neighbours go in one call. */
static int cached_unmap(struct zero__page_map *m, uint32_t at, uint32_t n, uint32_t want)
{
    for (uint32_t end = m->n_slots; end > 0 && m->n_loose < want;) {
        uint32_t begin = end;
        while (begin > 0 && end - begin < want - m->n_loose && bit_get(m->cached, begin - 1) &&
               !(begin - 1 >= at && begin - 1 < at + n))
            begin--;
        if (begin == end) {
            end--;
            continue;
        }
        int err = m->backing.unmap(m->backing.self, zero__page_map_address(m, begin), end - begin);
        if (err)
            return err;
        for (uint32_t i = begin; i < end; i++) {
            bit_set(m->loose, m->page[i]);
            bit_clear(m->cached, i);
        }
        m->n_loose += end - begin;
        m->n_cached -= end - begin;
        end = begin;
    }
    return 0;
}

/* Makes want pages loose: those that are, then cached ones, then new ones. */
static int pages_loosen(struct zero__page_map *m, uint32_t at, uint32_t n, uint32_t want)
{
    int err = cached_unmap(m, at, n, want);

    while (!err && m->n_loose < want) {
        err = m->backing.commit(m->backing.self, m->n_reserved);
        if (!err) {
            bit_set(m->loose, m->n_reserved++);
            m->n_loose++;
        }
    }
    return err;
}

/* The lowest loose page from start on; there is one. */
static uint32_t loose_next(const struct zero__page_map *m, uint32_t start)
{
    uint64_t word = m->loose[start / 64] & UINT64_MAX << start % 64;
    uint32_t k = start / 64;
    while (!word)
        word = m->loose[++k];
    return k * 64 + (uint32_t)__builtin_ctzll(word);
}

/* Puts loose pages behind the slots of the run that have none; neighbours in one call. */
static int slots_fill(struct zero__page_map *m, uint32_t at, uint32_t n)
{
    uint32_t page = 0;

    for (uint32_t i = at; i < at + n;) {
        if (bit_get(m->cached, i)) {
            i++;
            continue;
        }
        uint32_t k = 1;
        page = loose_next(m, page);
        while (i + k < at + n && !bit_get(m->cached, i + k) && page + k < m->n_reserved &&
               bit_get(m->loose, page + k))
            k++;
        int err = m->backing.map(m->backing.self, zero__page_map_address(m, i), page, k);
        if (err)
            return err;
        for (uint32_t end = i + k; i < end; i++, page++) {
            bit_clear(m->loose, page);
            bit_set(m->cached, i);
            m->page[i] = page;
        }
        m->n_loose -= k;
        m->n_cached += k;
    }
    return 0;
}

int zero__page_map_take(struct zero__page_map *m, uint32_t n, uint32_t *slot)
{
    uint32_t n_live = m->n_reserved - m->n_loose - m->n_cached;

    if (n > m->n_allowed - n_live)
        return zero__fail(-ENOMEM,
                          "paged memory: %" PRIu32 " pages of 2 MiB do not fit: %" PRIu32
                          " of %" PRIu32 " under the limit are in use; free some, declare the "
                          "memory before commit, or raise ZERO_DYNAMIC_BYTES (or "
                          "ZERO_MEMORY_LIMIT, where that leaves less)",
                          n, n_live, m->n_allowed);
    uint32_t at = recent_fit(m, n);
    if (at == ZERO__PAGE_NONE) {
        at = first_fit(m, n);
        if (at == ZERO__PAGE_NONE)
            return zero__fail(-ENOMEM,
                              "paged memory: no %" PRIu32 " neighbouring addresses are left for "
                              "pages of 2 MiB; free some, or make fewer large requests",
                              n);
        uint32_t missing = 0;
        for (uint32_t i = at; i < at + n; i++)
            missing += !bit_get(m->cached, i);
        int err = pages_loosen(m, at, n, missing);
        if (!err)
            err = slots_fill(m, at, n);
        if (err)
            return err;
    }
    for (uint32_t i = at; i < at + n; i++) {
        bit_clear(m->cached, i);
        bit_set(m->taken, i);
    }
    m->n_cached -= n;
    m->length[at] = n;
    *slot = at;
    return 0;
}

void zero__page_map_drop(struct zero__page_map *m, uint32_t slot)
{
    uint32_t n = m->length[slot];

    for (uint32_t i = slot; i < slot + n; i++) {
        bit_clear(m->taken, i);
        bit_set(m->cached, i);
    }
    m->n_cached += n;
    m->length[slot] = 0;
    m->recent[m->next_recent++ % ZERO__PAGE_RECENT] = (struct zero__page_run){slot, n};
}
