/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks for the planner: buffer lifetimes from a file, or made to order. */
#ifndef ZERO_TOOLS_BENCH_ARENA_LIFETIMES_H
#define ZERO_TOOLS_BENCH_ARENA_LIFETIMES_H

#include <stdint.h>

#include "memory/plan.h"

struct lifetimes {
    struct zero__plan_buffer *buffers; /* times are ranks of those in the file */
    uint32_t n;
    uint64_t capacity; /* from a file name NAME.CAPACITY.csv, else 0 */
};

/*
 * From a CSV file: a header line naming the columns id, lower, upper and size in any order (others
 * are ignored), then a buffer a line, alive at lower <= t < upper. 0 or a negative errno with a
 * sentence that names the file and the line.
 */
int lifetimes_read(const char *path, struct lifetimes *out);
/*
 * n buffers made from a rectangle of time x memory by random cuts: a plan without a byte to spare
 * exists, and greedy passes miss it.
 */
int lifetimes_cut(uint32_t n, uint64_t seed, struct lifetimes *out);
/* n buffers that live as those of a training step do, in as many layers as it takes. */
int lifetimes_step(uint32_t n, uint64_t seed, struct lifetimes *out);
void lifetimes_destroy(struct lifetimes *l);

#endif
