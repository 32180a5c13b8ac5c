/* SPDX-License-Identifier: Apache-2.0 */
/* All arrays lie in one block that is made once; a search allocates nothing. */
#define _GNU_SOURCE
#include "memory/plan_skyline.h"

#include <stdlib.h>
#include <string.h>

/* Room on the trail for every buffer placed once, and for raises: this many for each slot. */
#define RAISES 16

/* Longer first, then larger, then by number. */
static int side_compare(const void *pa, const void *pb, void *arg)
{
    const struct zero__plan_problem *p = arg;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    uint32_t la = p->last[a] - p->first[a], lb = p->last[b] - p->first[b];

    if (la != lb)
        return la > lb ? -1 : 1;
    if (p->size[a] != p->size[b])
        return p->size[a] > p->size[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void side_sort(const struct zero__plan_problem *p, const uint32_t *slot, uint32_t *list,
                      uint32_t *at)
{
    zero__plan_by_slot(p, slot, list, at);
    for (uint32_t s = 0; s <= p->n_slots; s++)
        qsort_r(list + at[s], at[s + 1] - at[s], sizeof *list, side_compare, (void *)p);
}

int zero__plan_skyline_create(const struct zero__plan_problem *p, struct zero__plan_skyline *out)
{
    struct zero__plan_skyline s = {.p = p};
    size_t n = (size_t)p->n + 1, n_slots = (size_t)p->n_slots + 2;

    uint64_t trail_room = RAISES * n_slots;
    for (uint32_t b = 0; b < p->n; b++)
        trail_room += p->last[b] - p->first[b];
    size_t bytes = n_slots * (4 * sizeof *s.floor + 4 * sizeof *s.top) +
                   n * (sizeof *s.offset + 3 * sizeof *s.stack + sizeof *s.placed);
    s.trail = malloc(trail_room * sizeof *s.trail);
    s.block = malloc(bytes);
    if (!s.trail || !s.block) {
        free(s.trail);
        free(s.block);
        return zero__plan_no_memory(p->n);
    }
    s.floor = s.block;
    s.solid = s.floor + n_slots;
    s.slack = s.solid + n_slots;
    s.key = s.slack + n_slots;
    s.offset = s.key + n_slots;
    s.top = (uint32_t *)(s.offset + n);
    s.cross = s.top + n_slots;
    s.starts_at = s.cross + n_slots;
    s.ends_at = s.starts_at + n_slots;
    s.starts = s.ends_at + n_slots;
    s.ends = s.starts + n;
    s.stack = s.ends + n;
    s.placed = (bool *)(s.stack + n);
    side_sort(p, p->first, s.starts, s.starts_at);
    side_sort(p, p->last, s.ends, s.ends_at);
    *out = s;
    return 0;
}

void zero__plan_skyline_destroy(struct zero__plan_skyline *s)
{
    free(s->trail);
    free(s->block);
}

void zero__plan_skyline_reset(struct zero__plan_skyline *s, uint64_t capacity)
{
    const struct zero__plan_problem *p = s->p;
    size_t n_slots = (size_t)p->n_slots + 2;

    memset(s->floor, 0, n_slots * sizeof *s->floor);
    memset(s->solid, 0, n_slots * sizeof *s->solid);
    memset(s->key, 0, n_slots * sizeof *s->key);
    memset(s->top, 0xff, n_slots * sizeof *s->top);
    memset(s->cross, 0, n_slots * sizeof *s->cross);
    memset(s->placed, 0, p->n * sizeof *s->placed);
    s->n_trail = s->n_trail_placed = 0;
    s->n_stack = 0;
    for (uint32_t k = 0; k < p->n_slots; k++)
        s->slack[k] = capacity - p->load[k];
    for (uint32_t b = 0; b < p->n; b++) {
        s->key[p->first[b]] ^= zero__plan_hash(b);
        s->cross[p->first[b] + 1]++; /* so far the change from the slot before */
        s->cross[p->last[b]]--;
    }
    for (uint32_t k = 1; k <= p->n_slots; k++)
        s->cross[k] += s->cross[k - 1];
}

static void trail_note(struct zero__plan_skyline *s, uint32_t slot)
{
    s->trail[s->n_trail++] = (struct zero__plan_step){
        s->floor[slot], s->solid[slot], s->slack[slot], slot, s->top[slot],
    };
}

void zero__plan_skyline_place(struct zero__plan_skyline *s, uint32_t b, uint64_t height)
{
    uint32_t first = s->p->first[b], last = s->p->last[b];

    s->placed[b] = true;
    s->offset[b] = height;
    s->stack[s->n_stack++] = b;
    s->key[first] ^= zero__plan_hash(b);
    s->n_trail_placed += last - first;
    for (uint32_t k = first; k < last; k++) {
        trail_note(s, k);
        s->floor[k] = s->solid[k] = height + s->p->size[b];
        s->top[k] = b;
        s->cross[k] -= k > first;
    }
}

bool zero__plan_skyline_raise(struct zero__plan_skyline *s, uint32_t first, uint32_t last,
                              uint64_t height)
{
    uint64_t n_raised = s->n_trail - s->n_trail_placed;

    if (n_raised + (last - first) > RAISES * ((uint64_t)s->p->n_slots + 2))
        return false;
    for (uint32_t k = first; k < last; k++) {
        trail_note(s, k);
        s->slack[k] -= height - s->floor[k];
        s->floor[k] = height;
    }
    return true;
}

void zero__plan_skyline_undo(struct zero__plan_skyline *s, struct zero__plan_mark mark)
{
    while (s->n_trail > mark.n_trail) {
        const struct zero__plan_step *t = &s->trail[--s->n_trail];
        s->floor[t->slot] = t->floor;
        s->solid[t->slot] = t->solid;
        s->slack[t->slot] = t->slack;
        s->top[t->slot] = t->top;
    }
    while (s->n_stack > mark.n_stack) {
        uint32_t b = s->stack[--s->n_stack], first = s->p->first[b], last = s->p->last[b];
        s->placed[b] = false;
        s->key[first] ^= zero__plan_hash(b);
        s->n_trail_placed -= last - first;
        for (uint32_t k = first + 1; k < last; k++)
            s->cross[k]++;
    }
}
