/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every item knows its best partner, and a heap yields the item whose pair costs least. An entry
 * may be out of date, because the partner is gone: then it is found anew when it comes up. Partners
 * are looked for only among items that start or end near by.
 */
#include "memory/plan_merge.h"

#include <stdlib.h>
#include <string.h>

#include "memory/plan_item.h"

#define NONE ZERO__PLAN_NO_ITEM
#define NO_PAIR ZERO__PLAN_NO_PAIR
#define MOST_REACH 64u   /* slots: how far apart partners may start or end */
#define PAIRS_A_STEP 16u /* looked at for one unit of effort */
#define SLOTS_A_STEP 64u

struct merge {
    const struct zero__plan_merge_rule *rule;
    struct zero__plan_items items;
    uint32_t n_slots;
    uint64_t *slack;  /* by slot */
    uint64_t n_pairs; /* looked at */
    uint64_t n_slots_seen;
    uint64_t limit; /* of effort */
};

static uint64_t effort_of(const struct merge *m)
{
    return m->n_pairs / PAIRS_A_STEP + m->n_slots_seen / SLOTS_A_STEP;
}

/* The item that a and b would become. */
static struct zero__plan_item pair_box(const struct merge *m, uint32_t a, uint32_t b)
{
    const struct zero__plan_item *x = &m->items.item[a], *y = &m->items.item[b];
    struct zero__plan_item box = {
        .first = x->first < y->first ? x->first : y->first,
        .last = x->last > y->last ? x->last : y->last,
        .a = a,
        .b = b,
        .stacked = x->first < y->last && y->first < x->last,
    };
    box.size = box.stacked ? x->size + y->size : x->size > y->size ? x->size : y->size;
    return box;
}

/* Bytes of the box that neither item uses in a slot. */
static uint64_t slot_loss(const struct merge *m, const struct zero__plan_item *box, uint32_t slot)
{
    const struct zero__plan_item *x = &m->items.item[box->a], *y = &m->items.item[box->b];
    uint64_t loss = box->size;

    if (slot >= x->first && slot < x->last)
        loss -= x->size;
    if (slot >= y->first && slot < y->last)
        loss -= y->size;
    return loss;
}

/* The two, which do not overlap in time, are neighbours of whom no third can take the place:
 * nothing else ends or starts between them. */
static bool is_alone(const struct merge *m, const struct zero__plan_item *box)
{
    const struct zero__plan_item *x = &m->items.item[box->a], *y = &m->items.item[box->b];
    uint32_t end = x->first < y->first ? x->last : y->last;
    uint32_t start = x->first < y->first ? y->first : x->first;

    return end == start && m->items.n_ends[end] == 1 && m->items.n_starts[end] == 1;
}

/* How likely it is that the two belong apart though they fit about: a factor, below one where their
 * times or sizes agree as hardly by chance. */
static double doubt(const struct merge *m, const struct zero__plan_item *box)
{
    const struct zero__plan_item *x = &m->items.item[box->a], *y = &m->items.item[box->b];

    if (box->stacked)
        return x->first == y->first || x->last == y->last ? 0.5 : 1;
    if (x->last != y->first && y->last != x->first)
        return x->size == y->size ? 0.3 : 1;
    if (is_alone(m, box))
        return 0.01;
    return x->size == y->size ? 0.2 : 1;
}

/* Costs of pairs that lose nothing, so small that they only put these in order. */
static double tiny_cost(const struct merge *m, const struct zero__plan_item *box)
{
    if (box->stacked)
        return 2e-15;
    if (is_alone(m, box))
        return 0;
    return m->rule->in_time_first ? 1e-15 : 3e-15;
}

static double pair_cost(struct merge *m, uint32_t a, uint32_t b)
{
    const struct zero__plan_merge_rule *rule = m->rule;
    const struct zero__plan_item *x = &m->items.item[a], *y = &m->items.item[b];

    uint64_t pair = (uint64_t)(a < b ? a : b) << 32 | (a < b ? b : a);

    m->n_pairs++;
    struct zero__plan_item box = pair_box(m, a, b);
    if (rule->veto_percent && zero__plan_hash(pair ^ rule->seed) % 100 < rule->veto_percent &&
        (box.stacked || !is_alone(m, &box)))
        return NO_PAIR;
    double used = (double)x->size * (double)(x->last - x->first) +
                  (double)y->size * (double)(y->last - y->first);
    double whole = (double)box.size * (double)(box.last - box.first);
    double cost = (whole - used) / whole;
    double chance = zero__plan_chance(pair ^ ~rule->seed);
    if (cost < 1e-13)
        return tiny_cost(m, &box) * (rule->shuffle ? 0.1 + chance : 1);
    if (cost > rule->most_lost)
        return NO_PAIR;
    cost *= doubt(m, &box) * (1 + rule->jitter * chance);
    for (uint32_t s = box.first; s < box.last; s++) {
        if (m->slack[s] < slot_loss(m, &box, s)) {
            m->n_slots_seen += s - box.first;
            return NO_PAIR;
        }
    }
    m->n_slots_seen += box.last - box.first;
    return cost;
}

/* Lets j be i's partner if that is cheaper than what i has, and with mutual also the reverse; then
 * the heap is kept in order throughout. */
static void partner_offer(struct merge *m, uint32_t i, uint32_t j, bool mutual)
{
    struct zero__plan_item *x = &m->items.item[i], *y = &m->items.item[j];

    if (i == j)
        return;
    double cost = pair_cost(m, i, j);
    if (cost < x->cost || (cost == x->cost && cost < NO_PAIR && j < x->partner)) {
        x->cost = cost;
        x->partner = j;
        if (mutual)
            zero__plan_items_sort(&m->items, i);
    }
    if (mutual && cost < y->cost) {
        y->cost = cost;
        y->partner = i;
        zero__plan_items_sort(&m->items, j);
    }
}

/* Looks at all partners of i: those that start about where it ends, end about where it starts, or
 * live about as it does. */
static void partner_find(struct merge *m, uint32_t i, bool mutual)
{
    struct zero__plan_item *x = &m->items.item[i];
    uint32_t first = x->first, last = x->last;
    double far = m->rule->most_lost * 2 * (double)(last - first);
    uint32_t reach =
        m->rule->most_lost > 0 ? 1 + (far < MOST_REACH ? (uint32_t)far : MOST_REACH) : 0;

    x->cost = NO_PAIR;
    x->partner = NONE;
    for (uint32_t s = last; s <= last + reach && s < m->n_slots; s++)
        for (uint32_t j = m->items.starts[s]; j != NONE; j = m->items.item[j].starts_next)
            partner_offer(m, i, j, mutual);
    for (uint32_t s = first > reach ? first - reach : 0; s <= first; s++)
        for (uint32_t j = m->items.ends[s]; j != NONE; j = m->items.item[j].ends_next)
            partner_offer(m, i, j, mutual);
    for (uint32_t s = first > reach ? first - reach : 0; s <= first + reach && s < last; s++) {
        for (uint32_t j = m->items.starts[s]; j != NONE; j = m->items.item[j].starts_next) {
            uint32_t end = m->items.item[j].last;
            if (end > first && (end > last ? end - last : last - end) <= reach)
                partner_offer(m, i, j, mutual);
        }
    }
    zero__plan_items_sort(&m->items, i);
}

/* Once a boundary has a single end and a single start, these two are surer to belong together. */
static void boundary_refresh(struct merge *m, uint32_t slot)
{
    if (slot < m->n_slots && m->items.n_starts[slot] == 1 && m->items.n_ends[slot] == 1) {
        partner_find(m, m->items.starts[slot], false);
        partner_find(m, m->items.ends[slot], false);
    }
}

static void pair_make(struct merge *m, uint32_t a, uint32_t b)
{
    struct zero__plan_item box = pair_box(m, a, b);
    uint32_t between = m->items.item[a].first < m->items.item[b].first ? m->items.item[a].last
                                                                       : m->items.item[b].last;
    uint32_t i = m->items.n++;

    for (uint32_t s = box.first; s < box.last; s++)
        m->slack[s] -= slot_loss(m, &box, s);
    zero__plan_items_unlink(&m->items, a);
    zero__plan_items_unlink(&m->items, b);
    m->items.item[i] = box;
    zero__plan_items_link(&m->items, i);
    partner_find(m, i, true);
    boundary_refresh(m, box.first);
    boundary_refresh(m, box.last);
    boundary_refresh(m, between);
}

static void pairs_make(struct merge *m)
{
    while (m->items.n_heap > m->rule->keep && m->items.n_heap > 1 && effort_of(m) < m->limit) {
        uint32_t i = m->items.heap[0], j = m->items.item[i].partner;
        if (j == NONE)
            return;
        if (!m->items.item[j].alive || pair_cost(m, i, j) > m->items.item[i].cost)
            partner_find(m, i, false);
        else
            pair_make(m, i, j);
    }
}

static int merge_create(const struct zero__plan_problem *p, uint64_t capacity, struct merge *m)
{
    int err = zero__plan_items_create(p, &m->items);

    if (err)
        return err;
    m->n_slots = p->n_slots;
    m->slack = malloc(((size_t)p->n_slots + 1) * sizeof *m->slack);
    if (!m->slack) {
        zero__plan_items_close(&m->items);
        free(m->items.item);
        return zero__plan_no_memory(p->n);
    }
    for (uint32_t s = 0; s < p->n_slots; s++)
        m->slack[s] = capacity - p->load[s];
    for (uint32_t b = 0; b < p->n; b++)
        zero__plan_items_link(&m->items, b);
    for (uint32_t b = 0; b < p->n && effort_of(m) < m->limit; b++)
        partner_find(m, b, false);
    return 0;
}

/* The items still alive, as a task of their own. */
static int smaller_make(const struct merge *m, struct zero__plan_merged *out)
{
    struct zero__plan_buffer *buffers = calloc((size_t)m->items.n_heap + 1, sizeof *buffers);
    uint32_t *item = malloc(((size_t)m->items.n_heap + 1) * sizeof *item), n = 0;
    int err;

    if (!buffers || !item) {
        err = zero__plan_no_memory(m->items.n_heap);
        goto err_free;
    }
    for (uint32_t i = 0; i < m->items.n; i++) {
        const struct zero__plan_item *x = &m->items.item[i];
        if (!x->alive)
            continue;
        buffers[n] = (struct zero__plan_buffer){x->size, x->first, x->last, 0};
        item[n++] = i;
    }
    err = zero__plan_problem_create(buffers, n, 1, &out->problem);
    if (err)
        goto err_free;
    free(buffers);
    out->item = item;
    return 0;
err_free:
    free(buffers);
    free(item);
    return err;
}

int zero__plan_merge(const struct zero__plan_problem *p, uint64_t capacity,
                     const struct zero__plan_merge_rule *rule, uint64_t limit,
                     struct zero__plan_merged *out, uint64_t *effort)
{
    struct zero__plan_merged merged = {0};
    struct merge m = {.rule = rule, .limit = limit};
    int err = merge_create(p, capacity, &m);

    if (err)
        return err;
    pairs_make(&m);
    *effort += p->n + effort_of(&m);
    err = smaller_make(&m, &merged);
    zero__plan_items_close(&m.items);
    free(m.slack);
    if (err) {
        free(m.items.item);
        return err;
    }
    merged.items = m.items.item;
    merged.n = p->n;
    merged.n_items = m.items.n;
    *out = merged;
    return 0;
}

void zero__plan_merged_expand(struct zero__plan_merged *m, const uint64_t *smaller,
                              uint64_t *offset)
{
    struct zero__plan_item *items = m->items;

    for (uint32_t k = 0; k < m->problem.n; k++)
        items[m->item[k]].offset = smaller[k];
    for (uint32_t i = m->n_items; i-- > m->n;) { /* a pair comes after its parts */
        const struct zero__plan_item *x = &items[i];
        items[x->a].offset = x->offset;
        items[x->b].offset = x->offset + (x->stacked ? items[x->a].size : 0);
    }
    for (uint32_t b = 0; b < m->n; b++)
        offset[b] = items[b].offset;
}

void zero__plan_merged_destroy(struct zero__plan_merged *m)
{
    zero__plan_problem_destroy(&m->problem);
    free(m->items);
    free(m->item);
}
