/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies for transports. A copy that is much larger than the caches is faster past them (measured:
 * 12 against 8 GB/s with two threads, each copying 256 MiB), a small one is slower.
 */
#ifndef ZERO_PLUGINS_COMMON_COPY_H
#define ZERO_PLUGINS_COMMON_COPY_H

#include <stdint.h>

#include "machine/isa.h"

/* What is known of where both are, and are to be. */
enum zero__copy_way {
    ZERO__COPY_ANY,    /* nothing */
    ZERO__COPY_CACHED, /* they fit into the caches and stay there */
    ZERO__COPY_STREAM, /* past the caches */
};

/* Copies, with the vectors of `isa`; source and destination do not overlap. */
void zero__copy(enum zero__isa isa, void *dst, const void *src, uint64_t bytes,
                enum zero__copy_way way);

#endif
