/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the solvers are tried, and how the effort is shared among them. */
#ifndef ZERO_MEMORY_PLAN_IMPROVE_H
#define ZERO_MEMORY_PLAN_IMPROVE_H

#include "memory/plan_greedy.h"

/* Improves a greedy plan towards the target with about `limit` units of effort, added to *effort.
 * 0 or -ENOMEM. */
int zero__plan_improve(const struct zero__plan_problem *p, uint64_t target, uint64_t limit,
                       uint32_t n_threads, struct zero__plan_best *best, uint64_t *effort);

#endif
