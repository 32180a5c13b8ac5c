/* SPDX-License-Identifier: Apache-2.0 */
/* The choices at one corner of a valley of the skyline. */
#ifndef ZERO_MEMORY_PLAN_VALLEY_H
#define ZERO_MEMORY_PLAN_VALLEY_H

#include "memory/plan_skyline.h"

/* The slots first .. last - 1 at one height; UINT64_MAX stands for an end of the part of time that
 * is searched, beyond which nothing reaches. */
struct zero__plan_valley {
    uint32_t first, last;
    uint64_t height, left_wall, right_wall;
};

/* Place buffer, or, with ZERO__PLAN_NOBODY, give up first .. last - 1 up to height. */
struct zero__plan_choice {
    uint32_t buffer, first, last;
    uint64_t height;
    double merit; /* the best is tried first */
};

/* Which buffers a search prefers among those that fit equally well. */
enum zero__plan_order {
    ZERO__PLAN_BY_LENGTH,
    ZERO__PLAN_BY_AREA,
    ZERO__PLAN_BY_SIZE,
    ZERO__PLAN_AT_RANDOM,
};

/* Fills in the choices at the left or right corner and returns how many there are, of which at most
 * room are filled in. */
uint32_t zero__plan_valley_choices(const struct zero__plan_skyline *s,
                                   const struct zero__plan_valley *v, bool right,
                                   enum zero__plan_order order, uint64_t seed,
                                   struct zero__plan_choice *choices, uint32_t room);

#endif
