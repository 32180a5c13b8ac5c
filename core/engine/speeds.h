/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a store is (measure.c), for who decides what is measured (speeds.c). */
#ifndef ZERO_ENGINE_SPEEDS_H
#define ZERO_ENGINE_SPEEDS_H

#include <math.h>
#include <stdint.h>

struct zero_runtime;
struct tier;
struct speeds;

/* Of a rank: what is measured of its store, and with how much memory. */
struct sample {
    uint64_t bytes, memory;
};

static inline int zero__is_speed(double x)
{
    return isfinite(x) && x > 1e3 && x < 1e15;
}

/* A tile, or as much of one as the disk does at once. */
uint64_t zero__block_bytes(const struct zero_runtime *rt, const struct tier *t);

/* By way of `memory`, which the store knows. Of a sample of hardly a block *s stays as it is. */
int zero__disk_measure(struct zero_runtime *rt, struct tier *t, const struct sample *x,
                       void *memory, struct speeds *s);

#endif
