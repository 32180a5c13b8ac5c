/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To find a hole, the blocks are looked at from the bottom up: a vectorisable sweep marks the
 * buffers of a block that are alive together with the one to place, and the holes between the
 * marked ones are compared.
 */
#include "memory/plan_pile.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 256u

/* Looked at for one unit of effort. */
#define SLOTS_A_STEP 128u
#define SPANS_A_STEP 64u
#define BLOCKS_A_STEP 2u
#define ALIVE_A_STEP 64u

struct zero__plan_pile_block {
    uint32_t first[BLOCK], last[BLOCK]; /* slots of the buffers, by offset */
    uint32_t buffer[BLOCK];             /* and who they are */
};

int zero__plan_pile_create(const struct zero__plan_problem *p, struct zero__plan_pile *out)
{
    size_t n = (size_t)p->n + 1, n_levels = zero__plan_levels_room(p->n_slots);
    size_t n_blocks = n / (BLOCK / 2) + 2; /* a full block becomes two halves */
    struct zero__plan_pile g = {.p = p};

    g.block = malloc(n * sizeof *g.offset + n_levels * sizeof *g.offset +
                     n_blocks * (sizeof *g.span + sizeof *g.blocks));
    if (!g.block)
        return zero__plan_no_memory(p->n);
    g.offset = g.block;
    zero__plan_levels_make(&g.floor, p->n_slots, g.offset + n);
    g.span = (struct zero__plan_pile_span *)(g.offset + n + n_levels);
    g.blocks = (struct zero__plan_pile_block *)(g.span + n_blocks);
    zero__plan_pile_reset(&g);
    *out = g;
    return 0;
}

void zero__plan_pile_destroy(struct zero__plan_pile *g)
{
    free(g->block);
}

void zero__plan_pile_reset(struct zero__plan_pile *g)
{
    zero__plan_levels_reset(&g->floor);
    g->span[0] = (struct zero__plan_pile_span){.first = UINT32_MAX};
    g->n_spans = 1;
}

/* mark[k] = 1 if the k-th of n buffers is alive in the slots first .. last - 1. */
static void mark_alive(const struct zero__plan_pile_block *b, uint32_t n, uint32_t first,
                       uint32_t last, uint8_t *mark)
{
    const uint32_t *restrict f = b->first, *restrict l = b->last;
    for (uint32_t k = 0; k < n; k++)
        mark[k] = (uint8_t)((f[k] < last) & (l[k] > first));
}

struct hole {
    uint64_t offset, bytes;
};

struct sweep {
    uint64_t size, limit, top; /* top: the end of those looked at */
    enum zero__plan_fit fit;
    struct hole best;
};

/* Takes the hole under buffer j into account; true ends the sweep. */
static bool hole_consider(const struct zero__plan_pile *g, uint32_t j, struct sweep *w)
{
    uint64_t off = g->offset[j], end = off + g->p->size[j];

    if (off > w->top && off - w->top >= w->size && off - w->top < w->best.bytes) {
        w->best = (struct hole){w->top, off - w->top};
        if (w->fit == ZERO__PLAN_FIRST_FIT || w->best.bytes == w->size)
            return true;
    }
    if (end > w->top)
        w->top = end;
    return false;
}

/* Likewise all holes under the buffers of one block that are alive with i. */
static bool block_sweep(struct zero__plan_pile *g, const struct zero__plan_pile_span *s, uint32_t i,
                        struct sweep *w)
{
    const struct zero__plan_pile_block *b = &g->blocks[s->block];
    uint32_t padded = (s->n + 7) & ~7u, n_alive = 0;
    uint8_t mark[BLOCK];

    memset(mark + s->n, 0, padded - s->n);
    mark_alive(b, s->n, g->p->first[i], g->p->last[i], mark);
    for (uint32_t k = 0; k < padded; k += 8) {
        uint64_t word;
        memcpy(&word, mark + k, 8);
        if (!word)
            continue;
        n_alive += 8;
        for (uint32_t m = k; m < k + 8; m++)
            if (mark[m] && hole_consider(g, b->buffer[m], w))
                return true;
    }
    g->effort += n_alive / ALIVE_A_STEP;
    return false;
}

uint64_t zero__plan_pile_find(struct zero__plan_pile *g, uint32_t i, enum zero__plan_fit fit,
                              uint64_t limit)
{
    const struct zero__plan_problem *p = g->p;
    struct sweep w = {.size = p->size[i], .fit = fit, .best = {0, UINT64_MAX}};
    uint32_t first = p->first[i], last = p->last[i], n_swept = 0;

    w.top = zero__plan_levels_most(&g->floor, first, last);
    for (uint32_t k = 0; k < g->n_spans; k++) {
        const struct zero__plan_pile_span *s = &g->span[k];
        if (s->end <= w.top || s->first >= last || s->last <= first)
            continue;
        n_swept++;
        if (block_sweep(g, s, i, &w))
            break;
        if (w.best.bytes == UINT64_MAX && w.top + w.size >= limit)
            break;
    }
    g->effort +=
        1 + (last - first) / SLOTS_A_STEP + g->n_spans / SPANS_A_STEP + n_swept / BLOCKS_A_STEP;
    return w.best.bytes < UINT64_MAX ? w.best.offset : w.top;
}

/* Makes the k-th span say what its block holds. */
static void span_update(struct zero__plan_pile *g, uint32_t k)
{
    struct zero__plan_pile_span *s = &g->span[k];
    const struct zero__plan_pile_block *b = &g->blocks[s->block];

    s->offset = g->offset[b->buffer[0]];
    s->end = s->last = 0;
    s->first = UINT32_MAX;
    for (uint32_t m = 0; m < s->n; m++) {
        uint64_t end = g->offset[b->buffer[m]] + g->p->size[b->buffer[m]];
        s->end = end > s->end ? end : s->end;
        s->first = b->first[m] < s->first ? b->first[m] : s->first;
        s->last = b->last[m] > s->last ? b->last[m] : s->last;
    }
}

/* Moves the upper half of the k-th block to one of its own. */
static void block_split(struct zero__plan_pile *g, uint32_t k)
{
    const uint32_t half = BLOCK / 2;

    memmove(&g->span[k + 2], &g->span[k + 1], (g->n_spans - k - 1) * sizeof *g->span);
    struct zero__plan_pile_span *s = &g->span[k];
    s[1] = (struct zero__plan_pile_span){.block = g->n_spans++, .n = half};
    s[0].n = half;
    struct zero__plan_pile_block *low = &g->blocks[s[0].block], *high = &g->blocks[s[1].block];
    memcpy(high->first, low->first + half, half * sizeof *low->first);
    memcpy(high->last, low->last + half, half * sizeof *low->last);
    memcpy(high->buffer, low->buffer + half, half * sizeof *low->buffer);
    span_update(g, k);
    span_update(g, k + 1);
}

/* The last span that begins no higher than offset, or 0. */
static uint32_t span_find(const struct zero__plan_pile *g, uint64_t offset)
{
    uint32_t lo = 1, hi = g->n_spans;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->span[mid].offset <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo - 1;
}

static void block_insert(struct zero__plan_pile *g, struct zero__plan_pile_span *s, uint32_t i)
{
    struct zero__plan_pile_block *b = &g->blocks[s->block];
    uint64_t offset = g->offset[i], end = offset + g->p->size[i];
    uint32_t lo = 0, hi = s->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->offset[b->buffer[mid]] <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(b->first + lo + 1, b->first + lo, (s->n - lo) * sizeof *b->first);
    memmove(b->last + lo + 1, b->last + lo, (s->n - lo) * sizeof *b->last);
    memmove(b->buffer + lo + 1, b->buffer + lo, (s->n - lo) * sizeof *b->buffer);
    b->first[lo] = g->p->first[i];
    b->last[lo] = g->p->last[i];
    b->buffer[lo] = i;
    s->offset = s->n == 0 || offset < s->offset ? offset : s->offset;
    s->end = end > s->end ? end : s->end;
    s->first = b->first[lo] < s->first ? b->first[lo] : s->first;
    s->last = b->last[lo] > s->last ? b->last[lo] : s->last;
    s->n++;
}

void zero__plan_pile_place(struct zero__plan_pile *g, uint32_t i, uint64_t offset)
{
    const struct zero__plan_problem *p = g->p;
    uint32_t k = span_find(g, offset);

    if (g->span[k].n == BLOCK) {
        block_split(g, k);
        k += g->span[k + 1].offset <= offset;
    }
    g->offset[i] = offset;
    block_insert(g, &g->span[k], i);
    zero__plan_levels_raise(&g->floor, p->first[i], p->last[i], offset, offset + p->size[i]);
}

void zero__plan_pile_stack(struct zero__plan_pile *g, const uint64_t *offset, const bool *fixed,
                           struct zero__plan_ranked *order)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->p->n; i++)
        if (!fixed || fixed[i])
            order[n++] = (struct zero__plan_ranked){-(double)offset[i], i};
    zero__plan_ranked_sort(order, n);
    zero__plan_pile_reset(g);
    for (uint32_t k = 0; k < n; k++)
        zero__plan_pile_place(g, order[k].buffer, offset[order[k].buffer]);
}
