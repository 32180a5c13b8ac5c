/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The items of a merge, buffers and pairs of items: found by the slot where they start or end, and
 * by the cost of their best pair, the least first.
 */
#ifndef ZERO_MEMORY_PLAN_ITEM_H
#define ZERO_MEMORY_PLAN_ITEM_H

#include <stdbool.h>

#include "memory/plan_problem.h"

#define ZERO__PLAN_NO_ITEM UINT32_MAX
#define ZERO__PLAN_NO_PAIR 1e9 /* the cost of an item without a partner */

struct zero__plan_item {
    uint64_t size, offset;
    uint32_t first, last;
    uint32_t a, b;                         /* the pair, or ZERO__PLAN_NO_ITEM in a */
    bool stacked;                          /* b lies upon a; else both have the item's offset */
    bool alive;                            /* no part of a pair yet */
    uint32_t starts_next, starts_previous; /* items of the same first slot */
    uint32_t ends_next, ends_previous;
    uint32_t partner, place; /* place in the heap */
    double cost;             /* of the pair with partner */
};

struct zero__plan_items {
    struct zero__plan_item *item;
    uint32_t n;
    uint32_t *starts, *ends; /* by slot: heads of the lists */
    uint32_t *n_starts, *n_ends;
    uint32_t *heap, n_heap; /* all that are alive: by cost, then by number */
};

/* Room for all buffers of the task and all pairs; they are not yet alive. 0 or -ENOMEM. */
int zero__plan_items_create(const struct zero__plan_problem *p, struct zero__plan_items *out);

/* Frees what the lists and the heap take; item itself is the caller's to free. */
void zero__plan_items_close(struct zero__plan_items *m);

/* Makes item i alive, without a partner. */
void zero__plan_items_link(struct zero__plan_items *m, uint32_t i);

void zero__plan_items_unlink(struct zero__plan_items *m, uint32_t i);

/* To be called after each single change of an item's cost. */
void zero__plan_items_sort(struct zero__plan_items *m, uint32_t i);

#endif
