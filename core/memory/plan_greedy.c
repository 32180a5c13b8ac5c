/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass keeps the placed buffers in flat arrays sorted by offset. To place one, a vectorisable
 * sweep marks those that are alive together with it, and the holes between the marked ones are
 * looked at from the bottom up. A pass ends as soon as it is no better than the best plan known.
 */
#include "memory/plan_greedy.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define QUICK_RULES 3
#define CHUNK 512 /* placed buffers marked at a time; a first fit often ends early */

enum fit { FIRST_FIT, BEST_FIT };

/* The order is by decreasing key, then by position. */
struct ranked {
    double key;
    uint32_t buffer;
};

struct pass {
    const struct zero__plan_problem *p;
    uint32_t n;             /* placed so far */
    uint32_t *first, *last; /* slots of the placed, by offset */
    uint32_t *buffer;       /* and who they are */
    uint64_t *offset;       /* by buffer */
    struct ranked *order;
    void *block;
};

typedef double rank_fn(const struct zero__plan_problem *p, uint32_t i);

static double length(const struct zero__plan_problem *p, uint32_t i)
{
    return (double)(p->last[i] - p->first[i]);
}

static double by_size(const struct zero__plan_problem *p, uint32_t i)
{
    return (double)p->size[i];
}

static double by_length(const struct zero__plan_problem *p, uint32_t i)
{
    return length(p, i);
}

static double by_area(const struct zero__plan_problem *p, uint32_t i)
{
    return (double)p->size[i] * length(p, i);
}

static double by_size_of_long(const struct zero__plan_problem *p, uint32_t i)
{
    double x = length(p, i);
    return (double)p->size[i] * x * x;
}

static double by_length_of_big(const struct zero__plan_problem *p, uint32_t i)
{
    double x = (double)p->size[i];
    return x * x * length(p, i);
}

static double by_start(const struct zero__plan_problem *p, uint32_t i)
{
    return -(double)p->first[i];
}

static double by_end(const struct zero__plan_problem *p, uint32_t i)
{
    return (double)p->last[i];
}

/* Those alive at the fullest moments first: they have the least freedom. */
static double by_load(const struct zero__plan_problem *p, uint32_t i)
{
    uint64_t most = 0;
    for (uint32_t s = p->first[i]; s < p->last[i]; s++)
        if (p->load[s] > most)
            most = p->load[s];
    return (double)most;
}

static const struct {
    const char *first_fit, *best_fit; /* names of the two methods */
    rank_fn *rank;
} rules[] = {
    {"greedy by load, first fit", "greedy by load, best fit", by_load},
    {"greedy by length, first fit", "greedy by length, best fit", by_length},
    {"greedy by size, first fit", "greedy by size, best fit", by_size},
    {"greedy by area, first fit", "greedy by area, best fit", by_area},
    {"greedy by long area, first fit", "greedy by long area, best fit", by_size_of_long},
    {"greedy by big area, first fit", "greedy by big area, best fit", by_length_of_big},
    {"greedy by start, first fit", "greedy by start, best fit", by_start},
    {"greedy by end, first fit", "greedy by end, best fit", by_end},
};

static int ranked_compare(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* mark[k] = 1 if the k-th of n placed buffers is alive in the slots first .. last - 1. */
static void mark_alive(const struct pass *g, uint32_t at, uint32_t n, uint32_t first, uint32_t last,
                       uint8_t *mark)
{
    const uint32_t *restrict f = g->first + at, *restrict l = g->last + at;
    for (uint32_t k = 0; k < n; k++)
        mark[k] = (uint8_t)((f[k] < last) & (l[k] > first));
}

struct hole {
    uint64_t offset, bytes;
};

/* Takes the hole under buffer j into account; true ends the sweep. */
static bool hole_consider(const struct pass *g, uint32_t j, uint64_t size, enum fit fit,
                          uint64_t *top, struct hole *best)
{
    uint64_t off = g->offset[j], end = off + g->p->size[j];

    if (off > *top && off - *top >= size && off - *top < best->bytes) {
        *best = (struct hole){*top, off - *top};
        if (fit == FIRST_FIT || best->bytes == size)
            return true;
    }
    if (end > *top)
        *top = end;
    return false;
}

static uint64_t hole_find(const struct pass *g, uint32_t i, enum fit fit)
{
    const struct zero__plan_problem *p = g->p;
    struct hole best = {0, UINT64_MAX};
    uint64_t top = 0;
    uint8_t mark[CHUNK];

    for (uint32_t at = 0; at < g->n; at += CHUNK) {
        uint32_t n = g->n - at < CHUNK ? g->n - at : CHUNK;
        uint32_t padded = (n + 7) & ~7u;
        memset(mark + n, 0, padded - n);
        mark_alive(g, at, n, p->first[i], p->last[i], mark);
        for (uint32_t k = 0; k < padded; k += 8) {
            uint64_t word;
            memcpy(&word, mark + k, 8);
            if (!word)
                continue;
            for (uint32_t m = k; m < k + 8; m++)
                if (mark[m] && hole_consider(g, g->buffer[at + m], p->size[i], fit, &top, &best))
                    return best.offset;
        }
    }
    return best.bytes < UINT64_MAX ? best.offset : top;
}

static void pass_insert(struct pass *g, uint32_t i, uint64_t offset)
{
    uint32_t lo = 0, hi = g->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->offset[g->buffer[mid]] <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(g->first + lo + 1, g->first + lo, (g->n - lo) * sizeof *g->first);
    memmove(g->last + lo + 1, g->last + lo, (g->n - lo) * sizeof *g->last);
    memmove(g->buffer + lo + 1, g->buffer + lo, (g->n - lo) * sizeof *g->buffer);
    g->first[lo] = g->p->first[i];
    g->last[lo] = g->p->last[i];
    g->buffer[lo] = i;
    g->offset[i] = offset;
    g->n++;
}

/* Places all in the given order; false as soon as the height reaches the limit. */
static bool pass_run(struct pass *g, enum fit fit, uint64_t limit, uint64_t *height)
{
    const struct zero__plan_problem *p = g->p;
    uint64_t top = 0;

    g->n = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = g->order[k].buffer;
        uint64_t offset = hole_find(g, i, fit);
        if (offset + p->size[i] > top)
            top = offset + p->size[i];
        if (top >= limit)
            return false;
        pass_insert(g, i, offset);
    }
    *height = top;
    return true;
}

static int pass_create(const struct zero__plan_problem *p, struct pass *g)
{
    size_t room = (size_t)p->n + 1;

    memset(g, 0, sizeof *g);
    g->p = p;
    g->block = malloc(room * (sizeof *g->order + sizeof *g->offset + 3 * sizeof *g->first));
    if (!g->block)
        return zero__fail(-ENOMEM, "memory plan: no memory to plan %u buffers", (unsigned)p->n);
    g->order = g->block;
    g->offset = (uint64_t *)(g->order + room);
    g->first = (uint32_t *)(g->offset + room);
    g->last = g->first + room;
    g->buffer = g->last + room;
    return 0;
}

int zero__plan_greedy(const struct zero__plan_problem *p, uint64_t target, bool quick,
                      struct zero__plan_best *best)
{
    struct pass g;
    int err = pass_create(p, &g);

    if (err)
        return err;
    size_t n_rules = quick ? QUICK_RULES : sizeof rules / sizeof *rules;
    for (size_t r = 0; r < n_rules && best->height > target; r++) {
        for (uint32_t i = 0; i < p->n; i++)
            g.order[i] = (struct ranked){rules[r].rank(p, i), i};
        qsort(g.order, p->n, sizeof *g.order, ranked_compare);
        for (int fit = FIRST_FIT; fit <= (quick ? FIRST_FIT : BEST_FIT) && best->height > target;
             fit++) {
            uint64_t height;
            if (!pass_run(&g, fit, best->height, &height))
                continue;
            best->height = height;
            best->method = fit == FIRST_FIT ? rules[r].first_fit : rules[r].best_fit;
            memcpy(best->offset, g.offset, p->n * sizeof *best->offset);
        }
    }
    free(g.block);
    return 0;
}

/* Those that are fixed, from the bottom up. */
static void pass_fix(struct pass *g, const bool *fixed, const uint64_t *offset)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->p->n; i++)
        if (fixed[i])
            g->order[n++] = (struct ranked){-(double)offset[i], i};
    qsort(g->order, n, sizeof *g->order, ranked_compare);
    g->n = 0;
    for (uint32_t k = 0; k < n; k++)
        pass_insert(g, g->order[k].buffer, offset[g->order[k].buffer]);
}

int zero__plan_greedy_fill(const struct zero__plan_problem *p, const bool *fixed, uint64_t target,
                           uint64_t *offset, bool *misfit, uint32_t *n_misfit)
{
    static rank_fn *const ranks[] = {by_load, by_length, by_size, by_area};
    uint32_t fewest = UINT32_MAX;
    struct pass g;
    int err = pass_create(p, &g);

    if (err)
        return err;
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks && fewest > 0; r++) {
        uint32_t n = 0, above = 0;
        pass_fix(&g, fixed, offset);
        for (uint32_t i = 0; i < p->n; i++)
            if (!fixed[i])
                g.order[n++] = (struct ranked){ranks[r](p, i), i};
        qsort(g.order, n, sizeof *g.order, ranked_compare);
        for (uint32_t k = 0; k < n && above < fewest; k++) {
            uint32_t i = g.order[k].buffer;
            pass_insert(&g, i, hole_find(&g, i, FIRST_FIT));
            above += g.offset[i] + p->size[i] > target;
        }
        if (above >= fewest)
            continue;
        fewest = above;
        for (uint32_t i = 0; i < p->n; i++)
            misfit[i] = g.offset[i] + p->size[i] > target;
        memcpy(offset, g.offset, p->n * sizeof *offset);
    }
    free(g.block);
    *n_misfit = fewest;
    return 0;
}
