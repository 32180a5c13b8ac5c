/* SPDX-License-Identifier: Apache-2.0 */
/* A counting sort: the sizes of the lists, their beginnings, then each item at its list's end. */
#include "schedule/lists.h"

#include <errno.h>
#include <stdlib.h>

#include "model/model.h"

int zero__lists_make(struct zero__lists *l, uint32_t n_lists, const uint32_t *keys,
                     const uint32_t *order, uint32_t n)
{
    uint32_t *first = calloc((size_t)n_lists + 2, sizeof *first), *at = first;
    uint32_t *items = calloc((size_t)n + 1, sizeof *items);

    if (!first || !items) {
        free(first);
        free(items);
        return -ENOMEM;
    }
    at++; /* while items are placed, at[k] is the end of list k so far */
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = order ? order[k] : k;
        if (keys[i] != ZERO_NONE && keys[i] + 1 < n_lists)
            at[keys[i] + 1]++;
    }
    for (uint32_t k = 1; k < n_lists; k++)
        at[k] += at[k - 1];
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = order ? order[k] : k;
        if (keys[i] != ZERO_NONE)
            items[at[keys[i]]++] = i;
    }
    *l = (struct zero__lists){first, items};
    return 0;
}

void zero__lists_free(struct zero__lists *l)
{
    free(l->first);
    free(l->items);
    *l = (struct zero__lists){NULL, NULL};
}
