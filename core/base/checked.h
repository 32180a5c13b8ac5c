/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on sizes from outside: every function returns 0, or -EOVERFLOW with *r untouched. */
#ifndef ZERO_BASE_CHECKED_H
#define ZERO_BASE_CHECKED_H

#include <errno.h>
#include <stdint.h>

static inline int zero__add(uint64_t a, uint64_t b, uint64_t *r)
{
    uint64_t x;
    if (__builtin_add_overflow(a, b, &x))
        return -EOVERFLOW;
    *r = x;
    return 0;
}

static inline int zero__mul(uint64_t a, uint64_t b, uint64_t *r)
{
    uint64_t x;
    if (__builtin_mul_overflow(a, b, &x))
        return -EOVERFLOW;
    *r = x;
    return 0;
}

/* Rounds up to a multiple of step > 0 (any step). */
static inline int zero__round_up(uint64_t a, uint64_t step, uint64_t *r)
{
    uint64_t rest = a % step;
    return rest ? zero__add(a, step - rest, r) : (*r = a, 0);
}

static inline uint64_t zero__least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
