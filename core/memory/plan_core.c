/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core grows by what finds no hole, until all fit or the core itself cannot be planned.
 *
 * Only the moments from the first to the last that the core is about are planned: members that meet
 * outside of them meet inside as well. And a member that lives through all of these may as well
 * lie at the bottom, so those are stacked there and need no search.
 */
#include "memory/plan_core.h"

#include <stdlib.h>

#include "memory/plan_race.h"
#include "memory/plan_rank.h"

#define MOST_ROUNDS 16

struct core {
    const struct zero__plan_problem *p;
    bool *member;                      /* by buffer */
    bool *misfit;                      /* by buffer */
    uint64_t *offset;                  /* by buffer */
    uint64_t *inner;                   /* by member */
    struct zero__plan_buffer *buffers; /* the members */
    uint32_t *id;                      /* by member: the buffer */
    uint32_t n;                        /* members that do not live throughout */
    uint32_t first, last;              /* the slots that are planned */
    void *block;
};

static int core_create(const struct zero__plan_problem *p, struct core *c)
{
    size_t n = (size_t)p->n + 1;

    *c = (struct core){.p = p};
    c->block = malloc(
        n * (sizeof *c->buffers + 2 * sizeof *c->offset + sizeof *c->id + 2 * sizeof *c->member));
    if (!c->block)
        return zero__plan_no_memory(p->n);
    c->buffers = c->block;
    c->offset = (uint64_t *)(c->buffers + n);
    c->inner = c->offset + n;
    c->id = (uint32_t *)(c->inner + n);
    c->member = (bool *)(c->id + n);
    c->misfit = c->member + n;
    return 0;
}

static void members_find(struct core *c, double tight)
{
    const struct zero__plan_problem *p = c->p;
    double full = tight * (double)p->bound;

    c->first = p->n_slots;
    for (uint32_t s = 0; s < p->n_slots; s++) {
        if ((double)p->load[s] < full)
            continue;
        c->first = s < c->first ? s : c->first;
        c->last = s + 1;
    }
    for (uint32_t b = 0; b < p->n; b++) {
        c->member[b] = false;
        for (uint32_t s = p->first[b]; s < p->last[b] && !c->member[b]; s++)
            c->member[b] = (double)p->load[s] >= full;
    }
}

static void misfits_add(struct core *c)
{
    const struct zero__plan_problem *p = c->p;

    for (uint32_t b = 0; b < p->n; b++) {
        if (!c->misfit[b] || c->member[b])
            continue;
        c->member[b] = true;
        c->first = p->first[b] < c->first ? p->first[b] : c->first;
        c->last = p->last[b] > c->last ? p->last[b] : c->last;
    }
}

/* Stacks the members that live throughout, the longest at the bottom, and lists the others. */
static int members_sort(struct core *c, uint32_t *n_members, uint64_t *base)
{
    const struct zero__plan_problem *p = c->p;
    struct zero__plan_ranked *through = malloc(((size_t)p->n + 1) * sizeof *through);
    uint32_t n_through = 0;

    if (!through)
        return zero__plan_no_memory(p->n);
    c->n = 0;
    for (uint32_t b = 0; b < p->n; b++) {
        if (!c->member[b])
            continue;
        uint32_t first = p->first[b] > c->first ? p->first[b] : c->first;
        uint32_t last = p->last[b] < c->last ? p->last[b] : c->last;
        if (first == c->first && last == c->last) {
            double length = zero__plan_rank(p, ZERO__PLAN_RANK_LENGTH, b);
            through[n_through++] = (struct zero__plan_ranked){length, b};
            continue;
        }
        c->id[c->n] = b;
        c->buffers[c->n++] = (struct zero__plan_buffer){p->size[b], first, last, 0};
    }
    zero__plan_ranked_sort(through, n_through);
    *base = 0;
    for (uint32_t k = 0; k < n_through; k++) {
        c->offset[through[k].buffer] = *base;
        *base += p->size[through[k].buffer];
    }
    free(through);
    *n_members = c->n + n_through;
    return 0;
}

/* Plans the members alone; their offsets go where they belong. */
static int members_plan(struct core *c, uint64_t target, uint64_t limit, uint32_t n_threads,
                        bool *found, uint64_t *effort)
{
    const struct zero__plan_problem *p = c->p;
    struct zero__plan_problem inner;
    uint32_t n_members = 0;
    uint64_t base = 0;

    *found = false;
    *effort += p->n / 16;
    int err = members_sort(c, &n_members, &base);
    if (err || n_members == p->n)
        return err; /* nothing is left over: that is the whole task, and tried elsewhere */
    err = zero__plan_problem_create(c->buffers, c->n, 1, &inner);
    if (err)
        return err;
    err = zero__plan_race(&inner, target - base, 0, limit, n_threads, c->inner, found, effort);
    if (!err && *found)
        for (uint32_t k = 0; k < c->n; k++)
            c->offset[c->id[k]] = base + c->inner[k];
    zero__plan_problem_destroy(&inner);
    return err;
}

int zero__plan_core(const struct zero__plan_problem *p, double tight, uint64_t target,
                    uint64_t limit, uint32_t n_threads, struct zero__plan_best *best,
                    uint64_t *effort)
{
    uint64_t end = *effort + limit;
    struct core c;
    int err = core_create(p, &c);

    if (err)
        return err;
    members_find(&c, tight);
    for (int round = 0; round < MOST_ROUNDS && *effort < end && best->height > target; round++) {
        bool found;
        err = members_plan(&c, target, (end - *effort) / 4, n_threads, &found, effort);
        if (err || !found)
            break;
        uint64_t left = end > *effort ? end - *effort : 0;
        err = zero__plan_greedy_fill(p, c.member, target, left, c.offset, c.misfit, effort);
        if (err)
            break;
        zero__plan_best_take(best, p, c.offset, "search of the core, then greedy");
        misfits_add(&c);
    }
    free(c.block);
    return err;
}
