/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checksum for every block, XXH3 folded to 32 bits: a thousandth of the store, in memory. A block
 * that was never written reads as zeros, and has their checksum.
 *
 * Requests under way do not overlap where one of them writes, so nobody reads a sum that is
 * written.
 */
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "nvme.h"

static uint32_t sum_of(const void *block)
{
    uint64_t h = XXH3_64bits(block, NVME_BLOCK);

    return (uint32_t)(h ^ h >> 32);
}

int zero__nvme_sums_resize(struct zero_store *store, uint64_t bytes)
{
    static const char zeros[NVME_BLOCK];
    uint64_t before = store->sums ? store->bytes / NVME_BLOCK : 0, after = bytes / NVME_BLOCK;
    uint32_t *sums, zero_sum;

    if (!store->settings.sums || !after)
        return 0;
    sums = reallocarray(store->sums, after, sizeof *sums);
    if (!sums)
        return zero__say(&store->voice, -ENOMEM,
                         "no memory for %llu bytes of checksums; ZERO_NVME_CHECKSUM=0 does without",
                         (unsigned long long)(after * sizeof *sums));
    zero_sum = sum_of(zeros);
    for (uint64_t i = before; i < after; i++)
        sums[i] = zero_sum;
    store->sums = sums;
    return 0;
}

void zero__nvme_sums_write(struct zero_store *store, uint64_t off, const void *data, uint64_t bytes)
{
    const char *at = data;

    if (!store->sums)
        return;
    for (uint64_t i = 0; i < bytes / NVME_BLOCK; i++)
        store->sums[off / NVME_BLOCK + i] = sum_of(at + i * NVME_BLOCK);
}

int64_t zero__nvme_sums_verify(const struct zero_store *store, uint64_t off, const void *data,
                               uint64_t bytes)
{
    const char *at = data;

    if (!store->sums)
        return -1;
    for (uint64_t i = 0; i < bytes / NVME_BLOCK; i++)
        if (store->sums[off / NVME_BLOCK + i] != sum_of(at + i * NVME_BLOCK))
            return (int64_t)(off / NVME_BLOCK + i);
    return -1;
}
