/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies for transports. A copy that is much larger than the caches is faster past them (measured:
 * 12 against 8 GB/s with two threads, each copying 256 MiB), a small one is slower.
 */
#ifndef ZERO_PLUGINS_COMMON_COPY_H
#define ZERO_PLUGINS_COMMON_COPY_H

#include <stdint.h>

/* Copies; stream: past the caches. Source and destination do not overlap. */
void zero__copy(void *dst, const void *src, uint64_t bytes, int stream);

/*
 * What the cores of this machine can count on: traffic beyond it goes past the caches; of copies,
 * and of sums.
 */
uint64_t zero__cache_bytes(void);
uint64_t zero__cache_sums_bytes(void);

/* Of a core's own caches, the largest; a guess where the kernel does not say. */
uint64_t zero__cache_core_bytes(void);

#endif
