/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a task smaller by treating several buffers as one: two of which one ends where the other
 * starts become one that lives through both (they share their offset), two of the same life become
 * one of both sizes (they lie upon each other). Where sizes or times differ a little, the bytes
 * lost are paid from the slack under the capacity. Pairs that lose least come first.
 *
 * Plans for the smaller task are plans for the whole, but not the other way round: a pair that
 * belongs apart makes the smaller task harder or impossible, so rules and seeds are varied.
 */
#ifndef ZERO_MEMORY_PLAN_MERGE_H
#define ZERO_MEMORY_PLAN_MERGE_H

#include <stdbool.h>

#include "memory/plan_problem.h"

struct zero__plan_merge_rule {
    double most_lost;      /* of a pair's common box, 0 .. 1 */
    uint32_t keep;         /* stop at so many */
    uint32_t veto_percent; /* of the pairs, chosen by seed, that are never made one */
    double jitter;         /* costs are raised by up to so many times, at random */
    bool shuffle;          /* pairs that lose nothing come in random order */
    bool in_time_first;    /* among equals: pairs that follow each other before those that stack */
    uint64_t seed;
};

struct zero__plan_merged {
    struct zero__plan_problem problem; /* the smaller task */
    struct zero__plan_item *items;     /* the buffers, then every pair made */
    uint32_t *item;                    /* by buffer of the smaller task */
    uint32_t n, n_items;
};

/* 0 or -ENOMEM; *effort is increased by what was spent, about limit at most: what no pair was found
 * for until then stays as it is. */
int zero__plan_merge(const struct zero__plan_problem *p, uint64_t capacity,
                     const struct zero__plan_merge_rule *rule, uint64_t limit,
                     struct zero__plan_merged *out, uint64_t *effort);

/* From offsets of the smaller task to those of the whole. */
void zero__plan_merged_expand(struct zero__plan_merged *m, const uint64_t *smaller,
                              uint64_t *offset);

void zero__plan_merged_destroy(struct zero__plan_merged *m);

#endif
