/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repairs a plan that is nearly good enough: what lies too high and its neighbours in time are
 * taken out and placed again in other orders, while the rest stays. Suits long tasks, in which few
 * moments are missed.
 */
#ifndef ZERO_MEMORY_PLAN_REPAIR_H
#define ZERO_MEMORY_PLAN_REPAIR_H

#include "memory/plan_greedy.h"

/* Improves *best towards the target with about limit units of effort, added to *effort. 0 or
 * -ENOMEM. */
int zero__plan_repair(const struct zero__plan_problem *p, uint64_t target, uint64_t limit,
                      struct zero__plan_best *best, uint64_t *effort);

#endif
