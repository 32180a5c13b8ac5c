/* SPDX-License-Identifier: Apache-2.0 */
/* A pass ends as soon as it is no better than the best plan known. */
#include "memory/plan_greedy.h"

#include <stdlib.h>
#include <string.h>

#include "memory/plan_pile.h"
#include "memory/plan_rank.h"

struct pass {
    struct zero__plan_pile pile;
    struct zero__plan_ranked *order;
};

static const char *const methods[ZERO__PLAN_N_PASSES] = {
    "greedy by load, first fit",      "greedy by load, best fit",
    "greedy by length, first fit",    "greedy by length, best fit",
    "greedy by size, first fit",      "greedy by size, best fit",
    "greedy by area, first fit",      "greedy by area, best fit",
    "greedy by long area, first fit", "greedy by long area, best fit",
    "greedy by big area, first fit",  "greedy by big area, best fit",
    "greedy by start, first fit",     "greedy by start, best fit",
    "greedy by end, first fit",       "greedy by end, best fit",
};

/* Places all in the given order; false as soon as the height or the effort reaches its limit. */
static bool pass_run(struct pass *g, enum zero__plan_fit fit, uint64_t most_high,
                     uint64_t most_effort)
{
    const struct zero__plan_problem *p = g->pile.p;
    uint64_t top = 0;

    zero__plan_pile_reset(&g->pile);
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = g->order[k].buffer;
        uint64_t offset = zero__plan_pile_find(&g->pile, i, fit, most_high);
        if (offset + p->size[i] > top)
            top = offset + p->size[i];
        if (top >= most_high || g->pile.effort > most_effort)
            return false;
        zero__plan_pile_place(&g->pile, i, offset);
    }
    return true;
}

static int pass_create(const struct zero__plan_problem *p, struct pass *g)
{
    g->order = malloc(((size_t)p->n + 1) * sizeof *g->order);
    if (!g->order)
        return zero__plan_no_memory(p->n);
    int err = zero__plan_pile_create(p, &g->pile);
    if (err)
        free(g->order);
    return err;
}

static void pass_destroy(struct pass *g)
{
    zero__plan_pile_destroy(&g->pile);
    free(g->order);
}

/* Lists the buffers that are not fixed (NULL: all) in the order of a rule; how many they are. */
static uint32_t pass_order(struct pass *g, enum zero__plan_rule rule, const bool *fixed)
{
    const struct zero__plan_problem *p = g->pile.p;
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (!fixed || !fixed[i])
            g->order[n++] = (struct zero__plan_ranked){zero__plan_rank(p, rule, i), i};
    zero__plan_ranked_sort(g->order, n);
    return n;
}

void zero__plan_best_take(struct zero__plan_best *best, const struct zero__plan_problem *p,
                          const uint64_t *offset, const char *method)
{
    uint64_t height = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (offset[i] + p->size[i] > height)
            height = offset[i] + p->size[i];
    if (height >= best->height)
        return;
    best->height = height;
    best->method = method;
    memcpy(best->offset, offset, p->n * sizeof *best->offset);
}

int zero__plan_greedy(const struct zero__plan_problem *p, uint64_t target, uint32_t first,
                      uint32_t last, uint64_t limit, struct zero__plan_best *best, uint64_t *effort)
{
    struct pass g;
    int err = pass_create(p, &g);

    if (err)
        return err;
    for (uint32_t k = first; k < last && best->height > target && g.pile.effort <= limit; k++) {
        enum zero__plan_fit fit = k % 2 ? ZERO__PLAN_BEST_FIT : ZERO__PLAN_FIRST_FIT;
        if (k == first || k % 2 == 0)
            pass_order(&g, (enum zero__plan_rule)(k / 2), NULL);
        if (pass_run(&g, fit, best->height, limit))
            zero__plan_best_take(best, p, g.pile.offset, methods[k]);
    }
    *effort += g.pile.effort;
    pass_destroy(&g);
    return 0;
}

int zero__plan_greedy_fill(const struct zero__plan_problem *p, const bool *fixed, uint64_t target,
                           uint64_t limit, uint64_t *offset, bool *misfit, uint64_t *effort)
{
    static const enum zero__plan_rule rules[] = {ZERO__PLAN_RANK_LOAD, ZERO__PLAN_RANK_LENGTH,
                                                 ZERO__PLAN_RANK_SIZE, ZERO__PLAN_RANK_AREA};
    uint32_t fewest = UINT32_MAX;
    struct pass g;
    int err = pass_create(p, &g);

    if (err)
        return err;
    for (size_t r = 0; r < sizeof rules / sizeof *rules && fewest > 0; r++) {
        uint32_t above = 0;
        if (r > 0 && g.pile.effort > limit)
            break;
        zero__plan_pile_stack(&g.pile, offset, fixed, g.order);
        uint32_t n = pass_order(&g, rules[r], fixed);
        for (uint32_t k = 0; k < n && above < fewest; k++) {
            uint32_t i = g.order[k].buffer;
            uint64_t at = zero__plan_pile_find(&g.pile, i, ZERO__PLAN_FIRST_FIT, UINT64_MAX);
            zero__plan_pile_place(&g.pile, i, at);
            above += at + p->size[i] > target;
        }
        if (above >= fewest)
            continue;
        fewest = above;
        for (uint32_t i = 0; i < p->n; i++)
            misfit[i] = g.pile.offset[i] + p->size[i] > target;
        memcpy(offset, g.pile.offset, p->n * sizeof *offset);
    }
    *effort += g.pile.effort;
    pass_destroy(&g);
    return 0;
}
