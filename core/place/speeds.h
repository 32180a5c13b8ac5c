/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a store is (measure.c), for who decides what is measured (speeds.c). */
#ifndef ZERO_PLACE_SPEEDS_H
#define ZERO_PLACE_SPEEDS_H

#include <stdint.h>

struct zero__placer;
struct zero__tier_store;
struct zero__speeds;

/* Of a rank: what is measured of its store, and with how much memory. */
struct sample {
    uint64_t bytes, memory;
};

/* Bytes a second that some disk may have moved: what is kept, anybody can write. */
int zero__are_speeds(const struct zero__speeds *s);

/* A tile, or as much of one as the disk does at once. */
uint64_t zero__block_bytes(const struct zero__placer *placer, const struct zero__tier_store *t);

/* By way of `memory`, which the store knows. Of a sample of hardly a block *s stays as it is. */
int zero__disk_measure(struct zero__placer *placer, const struct zero__tier_store *t,
                       const struct sample *x, void *memory, struct zero__speeds *s);

#endif
