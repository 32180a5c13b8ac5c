/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory planner: given buffers with sizes and lifetimes, finds an offset for each so that no
 * two that live together overlap, in as few bytes as it can (dynamic storage allocation).
 *
 * Deterministic: effort is counted in search nodes, never in seconds, ties are broken by the order
 * of the buffers, and the result does not depend on the number of threads.
 */
#ifndef ZERO_MEMORY_PLAN_H
#define ZERO_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

/* A buffer is alive at the times first <= t < last. Neither bytes == 0 nor first == last needs
 * memory: such a buffer gets offset 0. */
struct zero__plan_buffer {
    uint64_t bytes;
    uint32_t first, last;
    uint64_t offset; /* result */
};

struct zero__plan_params {
    uint64_t align;       /* power of two, 0 means 1: sizes count rounded up to it */
    uint64_t capacity;    /* stop as soon as the height is no more than this; 0: lower bound */
    uint64_t node_budget; /* about what all after a first greedy pass may spend, whatever the size
                           * of the task; of tens of thousands of buffers each pass over them
                           * counts. 0: greedy passes only */
    uint32_t n_threads;   /* 0 or 1: the calling thread alone */
};

struct zero__plan_result {
    uint64_t lower_bound; /* the largest sum of rounded sizes alive at once */
    uint64_t height;      /* bytes that the plan takes */
    uint64_t nodes;       /* spent: about 5 million a second and core */
    const char *method;   /* what found the plan; a string constant */
};

/**
 * Plans all n buffers: fills in their offsets and *result. The height may exceed the capacity: the
 * caller compares. Errors, with a sentence and nothing changed: -EINVAL (bad alignment, a buffer
 * that ends before it starts), -EOVERFLOW (the sizes add up to 2^62 or more), -ENOMEM.
 */
int zero__plan_solve(struct zero__plan_buffer *buffers, uint32_t n,
                     const struct zero__plan_params *params, struct zero__plan_result *result);

/**
 * Checks a plan independently of how it was made: 0, or -EEXIST and in *a, *b the indices of two
 * buffers that are alive together and share bytes. Unrounded sizes count.
 */
int zero__plan_check(const struct zero__plan_buffer *buffers, uint32_t n, uint32_t *a, uint32_t *b);

#endif
