/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/plan_levels.h"

#include <string.h>

#define BLOCK ZERO__PLAN_LEVELS

static uint32_t blocks_of(uint32_t n_slots)
{
    return n_slots / BLOCK + 1;
}

size_t zero__plan_levels_room(uint32_t n_slots)
{
    return (size_t)n_slots + 2 * (size_t)blocks_of(n_slots);
}

void zero__plan_levels_make(struct zero__plan_levels *l, uint32_t n_slots, uint64_t *room)
{
    *l = (struct zero__plan_levels){
        room, room + n_slots, room + n_slots + blocks_of(n_slots), n_slots};
    zero__plan_levels_reset(l);
}

void zero__plan_levels_reset(struct zero__plan_levels *l)
{
    memset(l->low, 0, blocks_of(l->n_slots) * sizeof *l->low);
    memset(l->high, 0, blocks_of(l->n_slots) * sizeof *l->high);
}

/* The end of the part of a range that begins at slot s and lies in one block. */
static uint32_t part_end(uint32_t s, uint32_t last)
{
    uint32_t end = (s / BLOCK + 1) * BLOCK;

    return end < last ? end : last;
}

uint64_t zero__plan_levels_most(const struct zero__plan_levels *l, uint32_t first, uint32_t last)
{
    uint64_t most = 0;

    for (uint32_t s = first, end; s < last; s = end) {
        uint32_t b = s / BLOCK;
        end = part_end(s, last);
        if (l->high[b] <= most)
            continue;
        if (end - s == BLOCK || l->low[b] == l->high[b]) {
            most = l->high[b];
            continue;
        }
        for (; s < end; s++)
            most = l->slot[s] > most ? l->slot[s] : most;
    }
    return most;
}

/* All slots of block b have one level: writes it down for each. */
static void block_open(struct zero__plan_levels *l, uint32_t b)
{
    uint32_t end = part_end(b * BLOCK, l->n_slots);

    for (uint32_t s = b * BLOCK; s < end && l->low[b] == l->high[b]; s++)
        l->slot[s] = l->low[b];
}

static void block_update(struct zero__plan_levels *l, uint32_t b)
{
    uint32_t end = part_end(b * BLOCK, l->n_slots);
    uint64_t low = UINT64_MAX, high = 0;

    for (uint32_t s = b * BLOCK; s < end; s++) {
        low = l->slot[s] < low ? l->slot[s] : low;
        high = l->slot[s] > high ? l->slot[s] : high;
    }
    l->low[b] = low;
    l->high[b] = high;
}

void zero__plan_levels_take(struct zero__plan_levels *l, uint32_t n_slots, uint64_t *room)
{
    zero__plan_levels_make(l, n_slots, room);
    for (uint32_t b = 0; b < blocks_of(n_slots); b++)
        block_update(l, b);
}

/* The range from s to end has all slots of block b. */
static int is_whole(const struct zero__plan_levels *l, uint32_t b, uint32_t s, uint32_t end)
{
    return s == b * BLOCK && end == part_end(s, l->n_slots);
}

void zero__plan_levels_raise(struct zero__plan_levels *l, uint32_t first, uint32_t last,
                             uint64_t from, uint64_t to)
{
    for (uint32_t s = first, end; s < last; s = end) {
        uint32_t b = s / BLOCK;
        end = part_end(s, last);
        if (from < l->low[b] || from > l->high[b])
            continue;
        if (l->low[b] == l->high[b] && is_whole(l, b, s, end)) {
            l->low[b] = l->high[b] = to;
            continue;
        }
        block_open(l, b);
        for (; s < end; s++)
            l->slot[s] = l->slot[s] == from ? to : l->slot[s];
        block_update(l, b);
    }
}
