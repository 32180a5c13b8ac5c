/* SPDX-License-Identifier: Apache-2.0 */
/* First all that can reach the target; if nothing does, halving between it and the best height
 * known, so that what is left of the gap is small and honest. */
#include "memory/plan_improve.h"

#include <stdlib.h>

#include "memory/plan_core.h"
#include "memory/plan_race.h"

#define HALVINGS 8
#define HALVING_PERCENT 2 /* of the effort, for the whole and for the core each */

/* The tight moments, at the given share of the bound, or, at 0, the whole task. */
static const struct {
    double tight;
    uint32_t permille; /* of the effort */
    uint32_t most;     /* only tasks of so many buffers */
} tries[] = {
    {0, 4, 2000},           {1, 50, UINT32_MAX},   {0.99, 50, UINT32_MAX}, {0.97, 30, UINT32_MAX},
    {0.95, 30, UINT32_MAX}, {0.9, 30, UINT32_MAX}, {0.8, 30, UINT32_MAX},  {0, 400, UINT32_MAX},
};

struct improvement {
    const struct zero__plan_problem *p;
    struct zero__plan_best *best;
    uint64_t *offset;
    uint32_t n_threads;
    uint64_t seed;
};

static int whole_try(struct improvement *m, uint64_t target, uint64_t limit, uint64_t *effort)
{
    bool found = false;
    int err =
        zero__plan_race(m->p, target, m->seed++, limit, m->n_threads, m->offset, &found, effort);

    if (!err && found)
        zero__plan_best_take(m->best, m->p, m->offset, "search");
    return err;
}

/* Heights between the target, which could not be reached, and the best, until the effort comes to
 * an end. */
static int between_try(struct improvement *m, uint64_t target, uint64_t limit, uint64_t end,
                       uint64_t *effort)
{
    uint64_t low = target, share = limit / 100 * HALVING_PERCENT;
    int err = 0;

    for (int k = 0; k < HALVINGS && !err && m->best->height - low > 1 && *effort < end; k++) {
        uint64_t middle = low + (m->best->height - low) / 2;
        err = whole_try(m, middle, share, effort);
        if (!err && m->best->height > middle)
            err = zero__plan_core(m->p, 0.95, middle, share, m->n_threads, m->best, effort);
        if (m->best->height > middle)
            low = middle;
    }
    return err;
}

int zero__plan_improve(const struct zero__plan_problem *p, uint64_t target, uint64_t limit,
                       uint32_t n_threads, struct zero__plan_best *best, uint64_t *effort)
{
    struct improvement m = {.p = p, .best = best, .n_threads = n_threads};
    uint64_t end = *effort + limit;
    int err = 0;

    m.offset = malloc(((size_t)p->n + 1) * sizeof *m.offset);
    if (!m.offset)
        return zero__plan_no_memory(p->n);
    for (size_t k = 0; k < sizeof tries / sizeof *tries && best->height > target && !err; k++) {
        uint64_t share = limit / 1000 * tries[k].permille;
        if (p->n > tries[k].most || *effort >= end)
            continue;
        err = tries[k].tight > 0
                  ? zero__plan_core(p, tries[k].tight, target, share, n_threads, best, effort)
                  : whole_try(&m, target, share, effort);
    }
    if (!err && best->height > target)
        err = between_try(&m, target, limit, end, effort);
    free(m.offset);
    return err;
}
