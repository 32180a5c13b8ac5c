/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers placed so far in a greedy pass, and the holes between them.
 *
 * They are kept sorted by offset in blocks, so that placing one moves little and whole blocks can
 * be passed over that are of other times. Of every slot it is known up to where it is filled
 * without a hole from the bottom, and no buffer of the slot is looked for a place below that.
 */
#ifndef ZERO_MEMORY_PLAN_PILE_H
#define ZERO_MEMORY_PLAN_PILE_H

#include <stdbool.h>

#include "memory/plan_levels.h"
#include "memory/plan_problem.h"
#include "memory/plan_rank.h"

enum zero__plan_fit { ZERO__PLAN_FIRST_FIT, ZERO__PLAN_BEST_FIT };

struct zero__plan_pile_block;

/* What a block spans, without looking into it. */
struct zero__plan_pile_span {
    uint64_t offset, end; /* the lowest offset, the highest end */
    uint32_t first, last; /* the earliest slot, the latest */
    uint32_t block, n;    /* which block, how many buffers */
};

struct zero__plan_pile {
    const struct zero__plan_problem *p;
    uint64_t *offset;                  /* by buffer */
    struct zero__plan_levels floor;    /* by slot: filled from 0 up to here */
    struct zero__plan_pile_span *span; /* the blocks, by offset */
    struct zero__plan_pile_block *blocks;
    uint32_t n_spans;
    uint64_t effort; /* spent on finding and placing since the pile was made */
    void *block;
};

/* An empty pile. 0 or -ENOMEM. */
int zero__plan_pile_create(const struct zero__plan_problem *p, struct zero__plan_pile *out);
void zero__plan_pile_destroy(struct zero__plan_pile *g);

/* Takes all buffers out. */
void zero__plan_pile_reset(struct zero__plan_pile *g);

/* The offset of the lowest or the smallest hole for buffer i, or that upon all others. May give up,
 * with some offset at which it would end beyond limit, once there is no other. */
uint64_t zero__plan_pile_find(struct zero__plan_pile *g, uint32_t i, enum zero__plan_fit fit,
                              uint64_t limit);

/* Places buffer i, where it overlaps no other. */
void zero__plan_pile_place(struct zero__plan_pile *g, uint32_t i, uint64_t offset);

/* Holds those that are fixed (NULL: all), and no others, from the bottom up at these offsets, by
 * buffer. order: room for all. */
void zero__plan_pile_stack(struct zero__plan_pile *g, const uint64_t *offset, const bool *fixed,
                           struct zero__plan_ranked *order);

#endif
