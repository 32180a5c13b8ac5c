/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items sorted into lists by a number that each of them has, in linear time: which declared buffers
 * begin or end with a use, for example. The items of a list keep their order.
 */
#ifndef ZERO_SCHEDULE_LISTS_H
#define ZERO_SCHEDULE_LISTS_H

#include <stdint.h>

struct zero__lists {
    uint32_t *first; /* list k is items[first[k]] to items[first[k + 1] - 1] */
    uint32_t *items;
};

/*
 * Sorts n items into n_lists lists: item i belongs to list keys[i], or to none if keys[i] is
 * ZERO_NONE. `order` has the n items as the lists take them; NULL: 0 to n - 1.
 * Returns 0, or -ENOMEM without a sentence.
 */
int zero__lists_make(struct zero__lists *l, uint32_t n_lists, const uint32_t *keys,
                     const uint32_t *order, uint32_t n);
void zero__lists_free(struct zero__lists *l);

static inline const uint32_t *zero__list_begin(const struct zero__lists *l, uint32_t k)
{
    return l->items + l->first[k];
}

static inline const uint32_t *zero__list_end(const struct zero__lists *l, uint32_t k)
{
    return l->items + l->first[k + 1];
}

#endif
