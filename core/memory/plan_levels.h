/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A level for each slot: up to where the slot is filled. Slots are kept in blocks of
 * ZERO__PLAN_LEVELS, and a block whose slots have one level is changed and read as a whole, so that
 * a buffer that lives long costs little.
 */
#ifndef ZERO_MEMORY_PLAN_LEVELS_H
#define ZERO_MEMORY_PLAN_LEVELS_H

#include <stddef.h>
#include <stdint.h>

#define ZERO__PLAN_LEVELS 64u

struct zero__plan_levels {
    uint64_t *slot;       /* by slot; of a block with low == high they may be out of date */
    uint64_t *low, *high; /* by block: the lowest and the highest level of its slots */
    uint32_t n_slots;
};

/* How many numbers the arrays of so many slots have together. */
size_t zero__plan_levels_room(uint32_t n_slots);
/* All levels are 0; `room`: of zero__plan_levels_room() numbers, which the caller owns. */
void zero__plan_levels_make(struct zero__plan_levels *l, uint32_t n_slots, uint64_t *room);
/* The levels are in the first n_slots numbers of `room` already. */
void zero__plan_levels_take(struct zero__plan_levels *l, uint32_t n_slots, uint64_t *room);
void zero__plan_levels_reset(struct zero__plan_levels *l);

/* The highest level of the slots first .. last - 1. */
uint64_t zero__plan_levels_most(const struct zero__plan_levels *l, uint32_t first, uint32_t last);
/* Gives the slots first .. last - 1 that have the level `from` the level `to`. */
void zero__plan_levels_raise(struct zero__plan_levels *l, uint32_t first, uint32_t last,
                             uint64_t from, uint64_t to);

#endif
