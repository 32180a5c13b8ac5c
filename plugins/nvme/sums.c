/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checksum for every block, XXH3 folded to 32 bits: a thousandth of the store, in memory. A block
 * that was never written reads as zeros, and has their checksum. The instruction set makes no
 * difference to its value.
 *
 * Requests under way do not overlap where one of them writes, so nobody reads a sum that is
 * written.
 */
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "nvme.h"

#define AT_ONCE 64u

static void sums_of(const char *data, uint64_t n_blocks, uint32_t *sums)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        zero__nvme_sums_avx512(data, n_blocks, sums);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        zero__nvme_sums_avx2(data, n_blocks, sums);
        return;
    }
#endif
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t h = XXH3_64bits(data + i * NVME_BLOCK, NVME_BLOCK);
        sums[i] = (uint32_t)(h ^ h >> 32);
    }
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
    sums_of(zeros, 1, &zero_sum);
    for (uint64_t i = before; i < after; i++)
        sums[i] = zero_sum;
    store->sums = sums;
    return 0;
}

void zero__nvme_sums_write(struct zero_store *store, uint64_t off, const void *data, uint64_t bytes)
{
    if (store->sums)
        sums_of(data, bytes / NVME_BLOCK, store->sums + off / NVME_BLOCK);
}

int64_t zero__nvme_sums_verify(const struct zero_store *store, uint64_t off, const void *data,
                               uint64_t bytes)
{
    uint64_t first = off / NVME_BLOCK, n = bytes / NVME_BLOCK;
    uint32_t now[AT_ONCE];

    for (uint64_t i = 0; store->sums && i < n; i += AT_ONCE) {
        uint64_t count = n - i < AT_ONCE ? n - i : AT_ONCE;
        sums_of((const char *)data + i * NVME_BLOCK, count, now);
        for (uint64_t k = 0; k < count; k++)
            if (store->sums[first + i + k] != now[k])
                return (int64_t)(first + i + k);
    }
    return -1;
}
