/* SPDX-License-Identifier: Apache-2.0 */
/* Who is in a communicator that is split from another one, and as which rank. */
#ifndef ZERO_PLUGINS_COMMON_MEMBERS_H
#define ZERO_PLUGINS_COMMON_MEMBERS_H

#include <stdint.h>
#include <string.h>

struct zero__member {
    int32_t color, key;
    int32_t parent; /* rank in the parent */
};

/*
 * From color and key of all ranks of the parent, in their order: puts those of the color of `own`
 * first, in the order of the new ranks, that is of keys and then of ranks in the parent. Returns
 * how many they are; *rank: which of them `own` is.
 */
int32_t zero__members_choose(struct zero__member *all, int32_t ranks, int32_t own, int32_t *rank);

/* Puts `rank` at place `at` of a list of n, of which max stay. Returns how many there are then. */
static inline uint32_t zero__members_insert(int32_t *list, uint32_t n, uint32_t max, uint32_t at,
                                            int32_t rank)
{
    if (at >= max)
        return n;
    n += n < max;
    memmove(&list[at + 1], &list[at], (n - 1 - at) * sizeof *list);
    list[at] = rank;
    return n;
}

#endif
