/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's front: normalise the task, run the solvers until one reaches the target, and hand
 * the offsets back in the caller's order and unit. */
#include "memory/plan.h"

#include <stdlib.h>

#include "memory/plan_greedy.h"
#include "memory/plan_improve.h"
#include "memory/plan_problem.h"

/* Tasks of more buffers are searched before all greedy passes are run: those take longer. */
#define MANY 1000

/* All greedy passes after the first: so many times the effort of that, and GREEDY_EFFORT. */
#define GREEDY_TIMES 8
#define GREEDY_EFFORT 4000000u

/* The height, in units, that needs no further effort. */
static uint64_t target_height(const struct zero__plan_problem *p, uint64_t capacity, uint64_t align)
{
    uint64_t units = capacity / align;
    return units > p->bound ? units : p->bound;
}

static void result_write(const struct zero__plan_problem *p, const struct zero__plan_best *best,
                         uint64_t align, struct zero__plan_buffer *buffers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        buffers[i].offset = 0;
    for (uint32_t i = 0; i < p->n; i++)
        buffers[p->id[i]].offset = best->offset[i] * align;
}

/* A part of time that no buffer leaves. */
struct part {
    uint32_t first, last; /* slots */
    uint32_t n;           /* buffers */
    uint32_t at;          /* of the first of them in a list of buffers by part */
};

static int part_compare(const void *pa, const void *pb)
{
    const struct part *a = pa, *b = pb;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Cuts time where nothing is alive across; smaller parts first. parts has room for all slots. */
static uint32_t parts_find(const struct zero__plan_problem *p, struct part *parts)
{
    uint32_t n_parts = 0;

    /* parts[s]: first the end of the longest life, and the number, of the buffers from slot s on */
    for (uint32_t s = 0; s < p->n_slots; s++)
        parts[s] = (struct part){s, s + 1, 0, 0};
    for (uint32_t i = 0; i < p->n; i++) {
        struct part *x = &parts[p->first[i]];
        x->n++;
        if (p->last[i] > x->last)
            x->last = p->last[i];
    }
    for (uint32_t s = 0; s < p->n_slots;) {
        struct part whole = parts[s];
        for (s++; s < whole.last; s++) {
            whole.n += parts[s].n;
            if (parts[s].last > whole.last)
                whole.last = parts[s].last;
        }
        parts[n_parts++] = whole; /* n_parts < s: overwrites only what has been read */
    }
    qsort(parts, n_parts, sizeof *parts, part_compare);
    return n_parts;
}

/* Lists the buffers by part, in the problem's order. part_of has room for all slots. */
static void parts_list(const struct zero__plan_problem *p, struct part *parts, uint32_t n_parts,
                       uint32_t *part_of, uint32_t *id)
{
    uint32_t at = 0;

    for (uint32_t k = 0; k < n_parts; k++) {
        for (uint32_t s = parts[k].first; s < parts[k].last; s++)
            part_of[s] = k;
        parts[k].at = at;
        at += parts[k].n;
    }
    for (uint32_t i = 0; i < p->n; i++)
        id[parts[part_of[p->first[i]]].at++] = i;
    for (uint32_t k = 0; k < n_parts; k++)
        parts[k].at -= parts[k].n;
}

static int whole_solve(const struct zero__plan_problem *p, uint64_t target, uint64_t limit,
                       uint32_t n_threads, struct zero__plan_best *best, uint64_t *nodes)
{
    uint64_t first = 0, spent = 0;
    int err = zero__plan_greedy(p, target, 0, 1, UINT64_MAX, best, &first);
    uint64_t greedy_limit = GREEDY_EFFORT + GREEDY_TIMES * first;
    bool greedy_last = p->n > MANY && limit > 0;

    if (!err && best->height > target && !greedy_last)
        err = zero__plan_greedy(p, target, 1, ZERO__PLAN_N_PASSES, greedy_limit, best, nodes);
    if (!err && best->height > target && spent < limit)
        err = zero__plan_improve(p, target, limit - spent, n_threads, best, &spent);
    if (!err && best->height > target && greedy_last && spent < limit) {
        greedy_limit = limit - spent < greedy_limit ? limit - spent : greedy_limit;
        err = zero__plan_greedy(p, target, 1, ZERO__PLAN_N_PASSES, greedy_limit, best, &spent);
    }
    *nodes += first + spent;
    return err;
}

/* Plans the n buffers id of one part as a task of its own; buffers has room for them. */
static int part_solve(const struct zero__plan_problem *p, const uint32_t *id, uint32_t n,
                      uint64_t target, uint64_t limit, uint32_t n_threads,
                      struct zero__plan_buffer *buffers, struct zero__plan_best *best,
                      uint64_t *nodes)
{
    struct zero__plan_best inner = {NULL, UINT64_MAX, NULL};
    struct zero__plan_problem q;

    for (uint32_t k = 0; k < n; k++)
        buffers[k] = (struct zero__plan_buffer){p->size[id[k]], p->first[id[k]], p->last[id[k]], 0};
    int err = zero__plan_problem_create(buffers, n, 1, &q);
    if (err)
        return err;
    inner.offset = malloc(((size_t)n + 1) * sizeof *inner.offset);
    err = inner.offset ? whole_solve(&q, target, limit, n_threads, &inner, nodes)
                       : zero__plan_no_memory(n);
    for (uint32_t k = 0; !err && k < n; k++)
        best->offset[id[k]] = inner.offset[k];
    if (!err && (inner.height > best->height || !best->method)) {
        best->height = inner.height;
        best->method = inner.method;
    }
    free(inner.offset);
    zero__plan_problem_destroy(&q);
    return err;
}

/* Solves part by part: what is found for one need not be found again with each try at another. */
static int parts_solve(const struct zero__plan_problem *p, uint64_t target,
                       const struct zero__plan_params *params, struct zero__plan_best *best,
                       uint64_t *nodes)
{
    struct zero__plan_buffer *buffers = malloc(((size_t)p->n + 1) * sizeof *buffers);
    struct part *parts = malloc(((size_t)p->n_slots + 1) * sizeof *parts);
    uint32_t *id = malloc(((size_t)p->n + 1) * sizeof *id), left = p->n;
    uint32_t *part_of = malloc(((size_t)p->n_slots + 1) * sizeof *part_of);
    uint64_t budget = params->node_budget;
    int err = 0;

    if (!buffers || !parts || !id || !part_of) {
        err = zero__plan_no_memory(p->n);
        goto out;
    }
    uint32_t n_parts = parts_find(p, parts);
    if (n_parts <= 1) {
        err = whole_solve(p, target, budget, params->n_threads, best, nodes);
        goto out;
    }
    parts_list(p, parts, n_parts, part_of, id);
    best->height = 0;
    best->method = NULL;
    for (uint32_t k = 0; k < n_parts && !err; k++) {
        uint64_t spent = 0;
        uint64_t share = (uint64_t)((double)budget * ((double)parts[k].n / (double)left));
        err = part_solve(p, id + parts[k].at, parts[k].n, target, share, params->n_threads, buffers,
                         best, &spent);
        left -= parts[k].n;
        budget -= spent < budget ? spent : budget;
        *nodes += spent;
    }
out:
    free(part_of);
    free(id);
    free(parts);
    free(buffers);
    return err;
}

int zero__plan_solve(struct zero__plan_buffer *buffers, uint32_t n,
                     const struct zero__plan_params *params, struct zero__plan_result *result)
{
    uint64_t align = params->align ? params->align : 1;
    struct zero__plan_best best = {NULL, UINT64_MAX, "empty"};
    struct zero__plan_problem p;
    int err = zero__plan_problem_create(buffers, n, align, &p);

    if (err)
        return err;
    uint64_t target = target_height(&p, params->capacity, align), nodes = 0;
    best.offset = calloc((size_t)p.n + 1, sizeof *best.offset);
    if (!best.offset) {
        err = zero__plan_no_memory(p.n);
        goto out;
    }
    err = parts_solve(&p, target, params, &best, &nodes);
    if (err)
        goto out;
    result_write(&p, &best, align, buffers, n);
    *result = (struct zero__plan_result){
        .lower_bound = p.bound * align,
        .height = best.height * align,
        .nodes = nodes,
        .method = best.method,
    };
out:
    free(best.offset);
    zero__plan_problem_destroy(&p);
    return err;
}
