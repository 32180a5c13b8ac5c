/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank orders the same list, so that nobody has to be told its new rank. */
#include "members.h"

#include <stdlib.h>

static int member_order(const void *a, const void *b)
{
    const struct zero__member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->parent < y->parent ? -1 : x->parent > y->parent;
}

int32_t zero__members_choose(struct zero__member *all, int32_t ranks, int32_t own, int32_t *rank)
{
    int32_t color = all[own].color, n = 0;

    for (int32_t p = 0; p < ranks; p++)
        if (all[p].color == color)
            all[n++] = (struct zero__member){color, all[p].key, p};
    qsort(all, (size_t)n, sizeof *all, member_order);
    for (int32_t i = 0; i < n; i++)
        if (all[i].parent == own)
            *rank = i;
    return n;
}
