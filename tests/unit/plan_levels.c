/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels by slot beside an array of them: random raises, resets and questions about ranges, of as
 * many slots as fit into a block, one fewer, one more, and many.
 */
#include "memory/plan_levels.h"

#include <stdlib.h>

#include "../random.h"
#include "../tap.h"

#define SEED UINT64_C(424242)
#define MOST 1000u

static uint32_t most(const uint32_t *levels, uint32_t first, uint32_t last)
{
    uint32_t n = 0;

    for (uint32_t s = first; s < last; s++)
        n = levels[s] > n ? levels[s] : n;
    return n;
}

static void size_try(uint32_t n_slots, uint64_t *seed)
{
    uint64_t *room = calloc(zero__plan_levels_room(n_slots), sizeof *room);
    static uint32_t plain[MOST];
    struct zero__plan_levels l;
    uint32_t wrong = 0;

    if (!room)
        bail("no memory");
    zero__plan_levels_make(&l, n_slots, room);
    for (uint32_t s = 0; s < n_slots; s++)
        plain[s] = 0;
    for (uint32_t k = 0; k < 20000; k++) {
        uint32_t first = (uint32_t)(random_next(seed) % n_slots);
        uint32_t last = first + 1 + (uint32_t)(random_next(seed) % (n_slots - first));
        uint32_t from = most(plain, first, first + 1), to = (uint32_t)(random_next(seed) % 6);
        if (random_next(seed) % 4 == 0)
            first = 0, last = n_slots;
        if (k % 64 == 0) {
            zero__plan_levels_reset(&l);
            for (uint32_t s = 0; s < n_slots; s++)
                plain[s] = 0;
            from = 0;
        }
        zero__plan_levels_raise(&l, first, last, from, from + to);
        for (uint32_t s = first; s < last; s++)
            plain[s] += plain[s] == from ? to : 0;
        wrong += zero__plan_levels_most(&l, first, last) != most(plain, first, last);
        wrong += zero__plan_levels_most(&l, 0, n_slots) != most(plain, 0, n_slots);
        wrong += zero__plan_levels_most(&l, first, first + 1) != plain[first];
    }
    is_int(wrong, 0, "%u slots", n_slots);
    for (uint32_t s = 0; s < n_slots; s++)
        room[s] = plain[s];
    zero__plan_levels_take(&l, n_slots, room);
    for (uint32_t first = 0; first < n_slots; first++)
        wrong += zero__plan_levels_most(&l, first, n_slots) != most(plain, first, n_slots);
    is_int(wrong, 0, "%u slots whose levels are known", n_slots);
    zero__plan_levels_reset(&l);
    is_int((int)zero__plan_levels_most(&l, 0, n_slots), 0, "all are 0 again");
    free(room);
}

int main(void)
{
    static const uint32_t sizes[] = {1,
                                     2,
                                     ZERO__PLAN_LEVELS - 1,
                                     ZERO__PLAN_LEVELS,
                                     ZERO__PLAN_LEVELS + 1,
                                     2 * ZERO__PLAN_LEVELS,
                                     MOST};
    uint64_t seed = SEED;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        size_try(sizes[i], &seed);
    done();
}
