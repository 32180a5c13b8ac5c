/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depth-first search for a plan within a given capacity.
 *
 * It looks at valleys: runs of slots of equal floor between higher neighbours (or the ends of
 * time). In the lowest corner of a valley lies either a buffer that fits between the walls and
 * touches that wall, or nothing; in the latter case space is lost, and there is only so much to
 * lose. The corner with the fewest such choices is decided first: one without any refutes the
 * state, one with a single choice needs no branching.
 *
 * Only plans are looked for in which every buffer rests on another or on the bottom (any plan can
 * be pushed down to such a one). Parts of time that no unplaced buffer connects are solved apart,
 * and states found hopeless are remembered.
 */
#ifndef ZERO_MEMORY_PLAN_SEARCH_H
#define ZERO_MEMORY_PLAN_SEARCH_H

#include <stdatomic.h>

#include "memory/plan_problem.h"

enum zero__plan_outcome {
    ZERO__PLAN_FOUND,
    ZERO__PLAN_NONE,  /* there is none */
    ZERO__PLAN_SPENT, /* not known: the effort is used up, or a limit of the search was met */
};

struct zero__plan_search;

int zero__plan_search_create(const struct zero__plan_problem *p, struct zero__plan_search **out);
void zero__plan_search_destroy(struct zero__plan_search *s);

/*
 * Looks for a plan of at most capacity units and writes its offsets (only when found). Restarts
 * with other orders, chosen by seed, until limit units of effort are spent; *effort is increased by
 * those. Ends early, as spent, once *winner < rank: then somebody else's result counts.
 */
enum zero__plan_outcome zero__plan_search_run(struct zero__plan_search *s, uint64_t capacity,
                                              uint64_t seed, uint64_t limit,
                                              const _Atomic uint32_t *winner, uint32_t rank,
                                              uint64_t *offset, uint64_t *effort);

#endif
