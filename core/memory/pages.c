/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large requests are runs of pages as they are. Small ones are rounded up to one of eight sizes a
 * doubling and lie in slabs: runs of one to three pages cut into equal pieces, with a bit for each
 * piece in memory of the host, never in the page itself. A slab whose last piece is freed gives its
 * pages back at once.
 */
#include "memory/pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "memory/page_map.h"

#define GRANULE UINT64_C(64)
#define FINE_SIZES 8u                   /* 64 .. 512, a granule apart */
#define N_SIZES (FINE_SIZES + 8u * 11u) /* then eight a doubling up to 1 MiB */
#define MOST_PAGES 3u                   /* of a slab */
#define MAP_WORDS (uint32_t)(ZERO__PAGE_BYTES / GRANULE / 64)
#define NONE UINT32_MAX

struct slab {
    uint32_t slot;           /* first slot of its run, or NONE */
    uint32_t kind;           /* which size */
    uint32_t n_used;         /* pieces */
    uint32_t start;          /* no piece below this word of the bitmap is free */
    uint32_t next, previous; /* among the slabs of its size with free pieces; next also among the
                                unused slabs */
};

/* One size of pieces. */
struct kind {
    uint64_t bytes;
    uint32_t n_pages, n_pieces; /* of a slab */
    uint32_t partial;           /* first slab with free pieces, or NONE */
};

struct zero__pages {
    struct zero__page_map map;
    struct kind kinds[N_SIZES];
    struct slab *slabs;       /* as many as pages */
    uint32_t n_slabs, unused; /* slabs ever used; first unused one of these */
    uint64_t *bits;           /* MAP_WORDS for each slab: piece in use */
    uint32_t *slab_at;        /* by slot of a live run: its slab + 1, or 0 for a large request */
    uint64_t *request;        /* by first slot of a large request: bytes asked for */
    struct zero__pages_stats stats;
};

static uint64_t bits_bytes(const struct zero__pages *p)
{
    return ((uint64_t)p->map.n_pages + 1) * MAP_WORDS * sizeof *p->bits;
}

/* The number of the smallest size that holds bytes. */
static uint32_t kind_of(uint64_t bytes)
{
    uint64_t granules = bytes ? (bytes - 1) / GRANULE : 0; /* full ones below the last byte */
    if (granules < FINE_SIZES)
        return (uint32_t)granules;
    uint32_t shift = 60 - (uint32_t)__builtin_clzll(granules); /* granules >> shift is 8 .. 15 */
    return FINE_SIZES + 8 * shift + (uint32_t)(granules >> shift) - 8;
}

static void kinds_fill(struct kind *kinds)
{
    for (uint32_t k = 0; k < N_SIZES; k++) {
        uint32_t shift = k < FINE_SIZES ? 0 : (k - FINE_SIZES) / 8;
        uint64_t steps = k < FINE_SIZES ? k + 1 : (k - FINE_SIZES) % 8 + 9;
        uint64_t bytes = (steps << shift) * GRANULE;
        uint32_t n_pages = 1;
        while (n_pages < MOST_PAGES &&
               n_pages * ZERO__PAGE_BYTES % bytes * 8 > n_pages * ZERO__PAGE_BYTES)
            n_pages++;
        kinds[k] = (struct kind){
            .bytes = bytes,
            .n_pages = n_pages,
            .n_pieces = (uint32_t)(n_pages * ZERO__PAGE_BYTES / bytes),
            .partial = NONE,
        };
    }
}

int zero__pages_create(const struct zero__pages_backing *backing, uint64_t limit_bytes,
                       struct zero__pages **out)
{
    struct zero__pages *p = calloc(1, sizeof *p);

    if (!p) {
        backing->close(backing->self, NULL, 0);
        return zero__fail(-ENOMEM, "paged memory: no memory for its description");
    }
    int err = zero__page_map_open(&p->map, backing, limit_bytes);
    if (err) {
        free(p);
        return err;
    }
    kinds_fill(p->kinds);
    p->unused = NONE;
    p->stats.limit_bytes = p->map.n_pages * ZERO__PAGE_BYTES;
    p->slabs = malloc(((size_t)p->map.n_pages + 1) * sizeof *p->slabs);
    p->slab_at = calloc((size_t)p->map.n_slots + 1, sizeof *p->slab_at);
    p->request = calloc((size_t)p->map.n_slots + 1, sizeof *p->request);
    /* Room for the worst case, of which only what is used is ever touched. */
    p->bits = mmap(NULL, bits_bytes(p), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->bits == MAP_FAILED)
        p->bits = NULL;
    if (!p->slabs || !p->slab_at || !p->request || !p->bits) {
        err = zero__fail(-ENOMEM, "paged memory: no memory to keep track of %" PRIu32 " pages",
                         p->map.n_pages);
        zero__pages_destroy(p);
        return err;
    }
    *out = p;
    return 0;
}

void zero__pages_destroy(struct zero__pages *p)
{
    if (!p)
        return;
    if (p->bits)
        munmap(p->bits, bits_bytes(p));
    free(p->request);
    free(p->slab_at);
    free(p->slabs);
    zero__page_map_close(&p->map);
    free(p);
}

void zero__pages_limit(struct zero__pages *p, uint64_t limit_bytes)
{
    uint64_t n = limit_bytes / ZERO__PAGE_BYTES;

    if (n < p->map.n_allowed)
        p->map.n_allowed = n > p->map.n_reserved ? (uint32_t)n : p->map.n_reserved;
    p->stats.limit_bytes = p->map.n_allowed * ZERO__PAGE_BYTES;
}

static uint64_t *slab_bits(const struct zero__pages *p, uint32_t slab)
{
    return p->bits + (uint64_t)slab * MAP_WORDS;
}

static void partial_push(struct zero__pages *p, uint32_t slab)
{
    struct slab *s = &p->slabs[slab];
    struct kind *k = &p->kinds[s->kind];

    s->next = k->partial;
    s->previous = NONE;
    if (s->next != NONE)
        p->slabs[s->next].previous = slab;
    k->partial = slab;
}

static void partial_remove(struct zero__pages *p, uint32_t slab)
{
    struct slab *s = &p->slabs[slab];

    if (s->previous != NONE)
        p->slabs[s->previous].next = s->next;
    else
        p->kinds[s->kind].partial = s->next;
    if (s->next != NONE)
        p->slabs[s->next].previous = s->previous;
}

static int slab_make(struct zero__pages *p, uint32_t kind)
{
    const struct kind *k = &p->kinds[kind];
    uint32_t slot, slab = p->unused;
    int err = zero__page_map_take(&p->map, k->n_pages, &slot);

    if (err)
        return err;
    if (slab == NONE)
        slab = p->n_slabs++;
    else
        p->unused = p->slabs[slab].next;
    p->slabs[slab] = (struct slab){.slot = slot, .kind = kind};
    memset(slab_bits(p, slab), 0, (k->n_pieces + 63) / 64 * sizeof(uint64_t));
    for (uint32_t i = 0; i < k->n_pages; i++)
        p->slab_at[slot + i] = slab + 1;
    p->stats.small_bytes += k->n_pages * ZERO__PAGE_BYTES;
    partial_push(p, slab);
    return 0;
}

static void slab_unmake(struct zero__pages *p, uint32_t slab)
{
    struct slab *s = &p->slabs[slab];
    const struct kind *k = &p->kinds[s->kind];

    partial_remove(p, slab);
    for (uint32_t i = 0; i < k->n_pages; i++)
        p->slab_at[s->slot + i] = 0;
    zero__page_map_drop(&p->map, s->slot);
    p->stats.small_bytes -= k->n_pages * ZERO__PAGE_BYTES;
    s->slot = NONE;
    s->next = p->unused;
    p->unused = slab;
}

static int small_alloc(struct zero__pages *p, uint64_t bytes, void **out)
{
    uint32_t kind = kind_of(bytes);
    struct kind *k = &p->kinds[kind];

    if (k->partial == NONE) {
        int err = slab_make(p, kind);
        if (err)
            return err;
    }
    uint32_t slab = k->partial;
    struct slab *s = &p->slabs[slab];
    uint64_t *word = slab_bits(p, slab) + s->start;
    while (*word == UINT64_MAX)
        word++, s->start++;
    uint32_t bit = (uint32_t)__builtin_ctzll(~*word);
    *word |= UINT64_C(1) << bit;
    if (++s->n_used == k->n_pieces)
        partial_remove(p, slab);
    p->stats.live_bytes += k->bytes;
    *out = zero__page_map_address(&p->map, s->slot) + (s->start * 64 + bit) * k->bytes;
    return 0;
}

static int free_refuse(const void *at, const char *why)
{
    return zero__fail(-EINVAL, "paged memory: cannot free %p: %s", at, why);
}

static int small_free(struct zero__pages *p, void *at, uint32_t slab)
{
    struct slab *s = &p->slabs[slab];
    const struct kind *k = &p->kinds[s->kind];
    uint64_t offset = (uint64_t)((uint8_t *)at - zero__page_map_address(&p->map, s->slot));
    uint64_t piece = offset / k->bytes;

    if (offset % k->bytes || piece >= k->n_pieces)
        return free_refuse(at, "it lies inside a request; pass the address that alloc returned");
    uint64_t *word = slab_bits(p, slab) + piece / 64, mask = UINT64_C(1) << piece % 64;
    if (!(*word & mask))
        return free_refuse(at, "it is free already");
    *word &= ~mask;
    if (piece / 64 < s->start)
        s->start = (uint32_t)(piece / 64);
    if (s->n_used-- == k->n_pieces)
        partial_push(p, slab);
    if (s->n_used == 0)
        slab_unmake(p, slab);
    p->stats.live_bytes -= k->bytes;
    return 0;
}

int zero__pages_alloc(struct zero__pages *p, uint64_t bytes, void **out)
{
    uint32_t slot;

    if (bytes < ZERO__PAGES_SLAB_BELOW)
        return small_alloc(p, bytes, out);
    if (bytes > p->stats.limit_bytes)
        return zero__fail(-ENOMEM,
                          "paged memory: a request of %" PRIu64
                          " bytes is above the limit of %" PRIu64
                          "; declare the memory before commit, or raise ZERO_DYNAMIC_BYTES (or "
                          "ZERO_MEMORY_LIMIT, where that leaves less)",
                          bytes, p->stats.limit_bytes);
    int err = zero__page_map_take(
        &p->map, (uint32_t)((bytes + ZERO__PAGE_BYTES - 1) / ZERO__PAGE_BYTES), &slot);
    if (err)
        return err;
    p->request[slot] = bytes;
    p->stats.live_bytes += bytes;
    *out = zero__page_map_address(&p->map, slot);
    return 0;
}

int zero__pages_free(struct zero__pages *p, void *at)
{
    uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)p->map.base);
    uint64_t slot = offset / ZERO__PAGE_BYTES;

    if ((uintptr_t)at < (uintptr_t)p->map.base || slot >= p->map.n_slots)
        return free_refuse(at, "it is not from this region");
    if (p->slab_at[slot])
        return small_free(p, at, p->slab_at[slot] - 1);
    if (offset % ZERO__PAGE_BYTES || !p->map.length[slot])
        return free_refuse(at, "no request starts there, or it is free already");
    zero__page_map_drop(&p->map, (uint32_t)slot);
    p->stats.live_bytes -= p->request[slot];
    return 0;
}

void zero__pages_stats(const struct zero__pages *p, struct zero__pages_stats *out)
{
    *out = p->stats;
    out->reserved_bytes = p->map.n_reserved * ZERO__PAGE_BYTES;
}
