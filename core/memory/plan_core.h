/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans large tasks of which only some moments are tight: the core, the buffers alive at a moment
 * that is nearly as full as the fullest, is planned by search, and the others, which have more
 * room, go greedily into the holes. Those for which no hole is left join the core, and so on.
 */
#ifndef ZERO_MEMORY_PLAN_CORE_H
#define ZERO_MEMORY_PLAN_CORE_H

#include "memory/plan_greedy.h"

/* Moments of at least `tight` times the bound belong to the core. Improves *best where it can, at
 * best to the target; adds to *effort what it spends, about limit at most. 0 or -ENOMEM. */
int zero__plan_core(const struct zero__plan_problem *p, double tight, uint64_t target,
                    uint64_t limit, uint32_t n_threads, struct zero__plan_best *best,
                    uint64_t *effort);

#endif
