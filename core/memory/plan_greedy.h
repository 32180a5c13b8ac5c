/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The greedy passes: every buffer in turn goes into a hole between those already placed, in each of
 * several orders, by first and by best fit.
 */
#ifndef ZERO_MEMORY_PLAN_GREEDY_H
#define ZERO_MEMORY_PLAN_GREEDY_H

#include <stdbool.h>

#include "memory/plan_problem.h"

/* The best plan so far: offsets in units, one for each buffer of the problem. */
struct zero__plan_best {
    uint64_t *offset;
    uint64_t height;
    const char *method;
};

/* Takes the plan with these offsets, found by the method, if it is lower. */
void zero__plan_best_take(struct zero__plan_best *best, const struct zero__plan_problem *p,
                          const uint64_t *offset, const char *method);

/* Each order with first and with best fit; the first suits most. */
#define ZERO__PLAN_N_PASSES 16u

/* Improves *best by the passes first .. last - 1, until its height is no more than target or
 * `limit` units of effort are spent; adds them to *effort. Heights from best->height on are given
 * up early; start with UINT64_MAX. 0 or -ENOMEM. */
int zero__plan_greedy(const struct zero__plan_problem *p, uint64_t target, uint32_t first,
                      uint32_t last, uint64_t limit, struct zero__plan_best *best,
                      uint64_t *effort);

/*
 * Places the buffers that are not fixed into the holes between those that are (whose offsets are
 * given), in several orders until about limit units of effort are spent, and keeps the order that
 * leaves the fewest above the target: these are marked in misfit. Writes all offsets.
 * 0 or -ENOMEM.
 */
int zero__plan_greedy_fill(const struct zero__plan_problem *p, const bool *fixed, uint64_t target,
                           uint64_t limit, uint64_t *offset, bool *misfit, uint64_t *effort);

#endif
