/* SPDX-License-Identifier: Apache-2.0 */
/* What of the memory that is left a plan may take. */
#ifndef ZERO_MEMORY_LIMITS_H
#define ZERO_MEMORY_LIMITS_H

#include "machine/left.h"

/* Bytes that stay free for what is not ours: stacks, libraries, page tables. */
#define ZERO__MEMORY_MARGIN (UINT64_C(64) << 20)

/* Of the host's memory that is left, what a plan of one of its ranks may take. */
static inline uint64_t zero__memory_share(uint64_t left, uint32_t sharers)
{
    return (left > ZERO__MEMORY_MARGIN ? left - ZERO__MEMORY_MARGIN : 0) / sharers;
}

/*
 * The same of what is free on a device of its own memory. Libraries take some later: code that is
 * loaded when it is first used, buffers of a transport's first collective. It is a guess: what
 * they take has not been measured.
 */
#define ZERO__DEVICE_MARGIN (UINT64_C(512) << 20)
static inline uint64_t zero__device_share(uint64_t free_bytes, uint32_t sharers)
{
    uint64_t margin = free_bytes / 32;

    return (free_bytes - (margin < ZERO__DEVICE_MARGIN ? margin : ZERO__DEVICE_MARGIN)) / sharers;
}

#endif
