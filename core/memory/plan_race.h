/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many short attempts at one capacity, each with its own way of combining buffers and of searching,
 * spread over threads. The attempt with the lowest number that succeeds wins, whichever thread is
 * the fastest, so the plan does not depend on the number of threads.
 */
#ifndef ZERO_MEMORY_PLAN_RACE_H
#define ZERO_MEMORY_PLAN_RACE_H

#include <stdbool.h>

#include "memory/plan_problem.h"

/* Spends at least limit units of effort unless it finds a plan of at most capacity units before;
 * adds what counts to *effort. seed makes another race of it. */
int zero__plan_race(const struct zero__plan_problem *p, uint64_t capacity, uint64_t seed,
                    uint64_t limit, uint32_t n_threads, uint64_t *offset, bool *found,
                    uint64_t *effort);

#endif
