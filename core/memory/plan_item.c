/* SPDX-License-Identifier: Apache-2.0 */
/* Linked lists by slot and a binary heap over one array of items, all by number. */
#include "memory/plan_item.h"

#include <stdlib.h>
#include <string.h>

int zero__plan_items_create(const struct zero__plan_problem *p, struct zero__plan_items *out)
{
    size_t n = (size_t)p->n + 1, n_slots = (size_t)p->n_slots + 1;
    struct zero__plan_items m = {
        .item = malloc(2 * n * sizeof *m.item),
        .starts = malloc((4 * n_slots + n) * sizeof *m.starts),
    };

    if (!m.item || !m.starts) {
        free(m.item);
        free(m.starts);
        return zero__plan_no_memory(p->n);
    }
    m.ends = m.starts + n_slots;
    m.n_starts = m.ends + n_slots;
    m.n_ends = m.n_starts + n_slots;
    m.heap = m.n_ends + n_slots;
    memset(m.starts, 0xff, 2 * n_slots * sizeof *m.starts);
    memset(m.n_starts, 0, 2 * n_slots * sizeof *m.n_starts);
    for (uint32_t b = 0; b < p->n; b++)
        m.item[m.n++] = (struct zero__plan_item){
            .size = p->size[b],
            .first = p->first[b],
            .last = p->last[b],
            .a = ZERO__PLAN_NO_ITEM,
        };
    *out = m;
    return 0;
}

void zero__plan_items_close(struct zero__plan_items *m)
{
    free(m->starts);
}

static bool heap_before(const struct zero__plan_items *m, uint32_t i, uint32_t j)
{
    double a = m->item[i].cost, b = m->item[j].cost;
    return a < b || (a == b && i < j);
}

static void heap_put(struct zero__plan_items *m, uint32_t place, uint32_t i)
{
    m->heap[place] = i;
    m->item[i].place = place;
}

void zero__plan_items_sort(struct zero__plan_items *m, uint32_t i)
{
    uint32_t k = m->item[i].place;

    while (k > 0 && heap_before(m, i, m->heap[(k - 1) / 2])) {
        heap_put(m, k, m->heap[(k - 1) / 2]);
        k = (k - 1) / 2;
    }
    for (;;) {
        uint32_t c = 2 * k + 1;
        if (c + 1 < m->n_heap && heap_before(m, m->heap[c + 1], m->heap[c]))
            c++;
        if (c >= m->n_heap || !heap_before(m, m->heap[c], i))
            break;
        heap_put(m, k, m->heap[c]);
        k = c;
    }
    heap_put(m, k, i);
}

void zero__plan_items_link(struct zero__plan_items *m, uint32_t i)
{
    struct zero__plan_item *x = &m->item[i];

    x->alive = true;
    x->cost = ZERO__PLAN_NO_PAIR;
    x->partner = ZERO__PLAN_NO_ITEM;
    x->starts_previous = x->ends_previous = ZERO__PLAN_NO_ITEM;
    x->starts_next = m->starts[x->first];
    x->ends_next = m->ends[x->last];
    if (x->starts_next != ZERO__PLAN_NO_ITEM)
        m->item[x->starts_next].starts_previous = i;
    if (x->ends_next != ZERO__PLAN_NO_ITEM)
        m->item[x->ends_next].ends_previous = i;
    m->starts[x->first] = m->ends[x->last] = i;
    m->n_starts[x->first]++;
    m->n_ends[x->last]++;
    heap_put(m, m->n_heap++, i);
    zero__plan_items_sort(m, i);
}

void zero__plan_items_unlink(struct zero__plan_items *m, uint32_t i)
{
    struct zero__plan_item *x = &m->item[i];

    x->alive = false;
    if (x->starts_next != ZERO__PLAN_NO_ITEM)
        m->item[x->starts_next].starts_previous = x->starts_previous;
    if (x->starts_previous != ZERO__PLAN_NO_ITEM)
        m->item[x->starts_previous].starts_next = x->starts_next;
    else
        m->starts[x->first] = x->starts_next;
    if (x->ends_next != ZERO__PLAN_NO_ITEM)
        m->item[x->ends_next].ends_previous = x->ends_previous;
    if (x->ends_previous != ZERO__PLAN_NO_ITEM)
        m->item[x->ends_previous].ends_next = x->ends_next;
    else
        m->ends[x->last] = x->ends_next;
    m->n_starts[x->first]--;
    m->n_ends[x->last]--;
    uint32_t last = m->heap[--m->n_heap];
    if (last != i) {
        heap_put(m, x->place, last);
        zero__plan_items_sort(m, last);
    }
}
