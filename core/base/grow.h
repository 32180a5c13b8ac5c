/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of the set-up phase (never on the step path): growing ones, and ones of ids. */
#ifndef ZERO_BASE_GROW_H
#define ZERO_BASE_GROW_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more element of `bytes` bytes; new memory is zeroed. 0 or -ENOMEM. */
static inline int zero__grow(void *array, uint32_t *capacity, uint32_t count, size_t bytes)
{
    void *old, *new;

    if (count < *capacity)
        return 0;
    uint32_t n = *capacity ? *capacity * 2 : 16;
    if (n <= count)
        return -ENOMEM;
    memcpy(&old, array, sizeof old);
    new = reallocarray(old, n, bytes);
    if (!new)
        return -ENOMEM;
    memset((char *)new + (size_t)*capacity * bytes, 0, (size_t)(n - *capacity) * bytes);
    memcpy(array, &new, sizeof new);
    *capacity = n;
    return 0;
}

/* n elements of `bytes` bytes, and room for one more, with all bits set; NULL without memory. */
static inline void *zero__all_ones(size_t n, size_t bytes)
{
    void *array = malloc((n + 1) * bytes);

    if (array)
        memset(array, 0xff, (n + 1) * bytes);
    return array;
}

#endif
