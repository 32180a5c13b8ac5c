/* SPDX-License-Identifier: Apache-2.0 */
/* The pile of a greedy pass against trying every offset that a hole could have, while the pile is
 * filled, emptied and filled again. */
#include "memory/plan_pile.h"

#include "../tap.h"
#include "memory/plan.h"

#define SEED UINT64_C(4711)
#define MOST 900
#define STEPS 30000

static uint64_t random_state = SEED;

static uint64_t random_below(uint64_t n)
{
    return zero__plan_hash(random_state++) % n;
}

/* The end of the hole at offset `from`, as buffer i sees it, or from if that is taken. */
static uint64_t hole_end(const struct zero__plan_pile *g, const bool *placed, uint32_t i,
                         uint64_t from)
{
    const struct zero__plan_problem *p = g->p;
    uint64_t end = UINT64_MAX;

    for (uint32_t b = 0; b < p->n; b++) {
        if (!placed[b] || p->first[b] >= p->last[i] || p->last[b] <= p->first[i])
            continue;
        if (g->offset[b] <= from && from < g->offset[b] + p->size[b])
            return from;
        if (g->offset[b] > from && g->offset[b] < end)
            end = g->offset[b];
    }
    return end;
}

/* Where buffer i goes: holes begin at 0 or where another ends. */
static uint64_t hole_expect(const struct zero__plan_pile *g, const bool *placed, uint32_t i,
                            bool best_fit)
{
    const struct zero__plan_problem *p = g->p;
    uint64_t offset = UINT64_MAX, bytes = UINT64_MAX;

    for (uint32_t b = 0; b <= p->n; b++) {
        uint64_t from = b < p->n ? g->offset[b] + p->size[b] : 0;
        if (b < p->n && (!placed[b] || p->first[b] >= p->last[i] || p->last[b] <= p->first[i]))
            continue;
        uint64_t end = hole_end(g, placed, i, from), room = end - from;
        if (room < p->size[i])
            continue;
        if (end == UINT64_MAX)
            room = UINT64_MAX - 1; /* upon all others: only where there is nothing else */
        else if (!best_fit)
            room = 0;
        if (room < bytes || (room == bytes && from < offset)) {
            offset = from;
            bytes = room;
        }
    }
    return offset;
}

static void fill(uint32_t n, uint32_t times)
{
    static struct zero__plan_buffer buffers[MOST];
    static bool placed[MOST];
    struct zero__plan_problem p;
    struct zero__plan_pile g;
    uint32_t n_placed = 0, most = 0, differ = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = (uint32_t)random_below(times);
        uint32_t length = 1 + (uint32_t)random_below(i % 3 ? 4 : times - first);
        buffers[i] = (struct zero__plan_buffer){1 + random_below(50), first, first + length, 0};
        placed[i] = false;
    }
    if (zero__plan_problem_create(buffers, n, 1, &p) || zero__plan_pile_create(&p, &g)) {
        ok(false, "there is memory for a pile");
        return;
    }
    for (uint32_t k = 0; k < STEPS; k++) {
        uint32_t i = (uint32_t)random_below(n);
        if (n_placed == n || random_below(4 * n) == 0) {
            zero__plan_pile_reset(&g);
            memset(placed, 0, sizeof placed);
            n_placed = 0;
        }
        while (placed[i])
            i = (i + 1) % n;
        enum zero__plan_fit fit = random_below(2) ? ZERO__PLAN_BEST_FIT : ZERO__PLAN_FIRST_FIT;
        uint64_t at = zero__plan_pile_find(&g, i, fit, UINT64_MAX);
        if (k % 16 == 0)
            differ += at != hole_expect(&g, placed, i, fit == ZERO__PLAN_BEST_FIT);
        zero__plan_pile_place(&g, i, at);
        placed[i] = true;
        most = ++n_placed > most ? n_placed : most;
    }
    if (!is_int(differ, 0, "%u buffers, up to %u placed: the holes are the right ones", n, most))
        diag("seed %llu", (unsigned long long)SEED);
    zero__plan_pile_destroy(&g);
    zero__plan_problem_destroy(&p);
}

int main(void)
{
    fill(5, 4);
    fill(60, 20);
    fill(400, 10);
    fill(MOST, 300);
    done();
}
