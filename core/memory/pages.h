/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged region: memory for requests that no plan knows. Requests of 1 MiB and more get whole
 * pages of 2 MiB, which need not be neighbours in the backing: they are mapped side by side into
 * a much larger range of addresses, so that no hole is ever too small. Smaller requests share pages
 * (slabs), at most 12.5 % larger than asked for from 512 bytes on, else rounded up to 64.
 *
 * Promise: reserved_bytes is exactly the largest sum, over time, of the pages that requests and
 * slabs held: it grows only when every page ever reserved is in use. Repeating the same requests
 * makes no call to the backing.
 *
 * One thread at a time. Memory that a device still works on must not be freed yet.
 */
#ifndef ZERO_MEMORY_PAGES_H
#define ZERO_MEMORY_PAGES_H

#include <stdint.h>

#define ZERO__PAGE_BYTES (UINT64_C(2) << 20)
#define ZERO__PAGES_SLAB_BELOW (UINT64_C(1) << 20) /* smaller requests share pages */

/*
 * Where pages come from. Pages are numbered from 0 to limit / ZERO__PAGE_BYTES - 1 and are reserved
 * in that order. All but close return 0 or a negative errno with a sentence, and then have done
 * nothing.
 */
struct zero__pages_backing {
    void *self;
    /* Sets aside bytes of addresses, aligned to a page, not yet usable. */
    int (*reserve)(void *self, uint64_t bytes, uint8_t **base);
    /* Makes sure that page exists, for good. */
    int (*commit)(void *self, uint32_t page);
    /* Lets the n addressed pages from at on be the backing's pages page .. page + n - 1. */
    int (*map)(void *self, uint8_t *at, uint32_t page, uint32_t n);
    /* Makes n pages of addresses unusable again. */
    int (*unmap)(void *self, uint8_t *at, uint32_t n);
    /* Gives all back, the addresses (base may be NULL) and whatever self owns. */
    void (*close)(void *self, uint8_t *base, uint64_t bytes);
};

/* Host memory: a memory file of the library's own. 0 or a negative errno. */
int zero__pages_host(uint64_t limit_bytes, struct zero__pages_backing *out);

struct zero__pages_stats {
    uint64_t live_bytes;                  /* requested; small ones as rounded up */
    uint64_t small_bytes;                 /* pages that slabs hold now */
    uint64_t reserved_bytes, limit_bytes; /* pages taken from the backing, and at most */
};

struct zero__pages;

/** A region of at most limit_bytes, rounded down to whole pages. Takes the backing over in any
 * case. 0, -ENOMEM or the backing's error. */
int zero__pages_create(const struct zero__pages_backing *backing, uint64_t limit_bytes,
                       struct zero__pages **out);

/** Frees the region with all that still lives in it. NULL is allowed. */
void zero__pages_destroy(struct zero__pages *p);

/** From now on at most limit_bytes, where that is less: for good. Pages that are reserved stay. */
void zero__pages_limit(struct zero__pages *p, uint64_t limit_bytes);

/** bytes of memory (0 counts as 1), aligned to 64 bytes, from 1 MiB on to ZERO__PAGE_BYTES; its
 * contents are undefined. -ENOMEM if it does not fit under the limit now; freeing helps. */
int zero__pages_alloc(struct zero__pages *p, uint64_t bytes, void **out);

/** -EINVAL, and nothing freed, for an address that alloc did not return or that is free already. */
int zero__pages_free(struct zero__pages *p, void *at);

void zero__pages_stats(const struct zero__pages *p, struct zero__pages_stats *out);

#endif
