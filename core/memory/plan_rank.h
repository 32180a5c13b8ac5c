/* SPDX-License-Identifier: Apache-2.0 */
/* The orders in which greedy passes place the buffers. */
#ifndef ZERO_MEMORY_PLAN_RANK_H
#define ZERO_MEMORY_PLAN_RANK_H

#include "memory/plan_problem.h"

enum zero__plan_rule {
    /* Those alive at the fullest moments first: they have the least freedom. */
    ZERO__PLAN_RANK_LOAD,
    ZERO__PLAN_RANK_LENGTH,
    ZERO__PLAN_RANK_SIZE,
    ZERO__PLAN_RANK_AREA,
    ZERO__PLAN_RANK_LONG_AREA, /* length counts twice */
    ZERO__PLAN_RANK_BIG_AREA,  /* size counts twice */
    ZERO__PLAN_RANK_START,
    ZERO__PLAN_RANK_END,
    ZERO__PLAN_N_RULES,
};

struct zero__plan_ranked {
    double key;
    uint32_t buffer;
};

/* Buffer i's key: the highest comes first. */
double zero__plan_rank(const struct zero__plan_problem *p, enum zero__plan_rule rule, uint32_t i);

/* Sorts by decreasing key, then by buffer. */
void zero__plan_ranked_sort(struct zero__plan_ranked *order, uint32_t n);

#endif
