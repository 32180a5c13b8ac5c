/* SPDX-License-Identifier: Apache-2.0 */
/* A window of time around each buffer that lies too high, wider with each round; what lives in the
 * window alone is placed anew, and stays so if less lies too high than before. */
#include "memory/plan_repair.h"

#include <stdlib.h>

#include "memory/plan_pile.h"
#include "memory/plan_rank.h"

#define MOST_MOVED 400u    /* buffers of a window; wider ones are not tried */
#define BUFFERS_A_STEP 64u /* looked at for one unit of effort */
#define TRIES 8u           /* in a row at one width */

struct repair {
    const struct zero__plan_problem *p;
    uint64_t target;
    struct zero__plan_pile pile;
    struct zero__plan_ranked *order; /* room for all */
    uint32_t *starts, *starts_at;    /* buffers by first slot; where those of a slot begin */
    uint32_t *misfit, n_misfits;     /* buffers above the target */
    uint64_t old[MOST_MOVED];        /* offsets, in the order of moved */
    uint32_t moved[MOST_MOVED], n_moved;
    void *block;
};

static int repair_create(const struct zero__plan_problem *p, struct repair **out)
{
    size_t n = (size_t)p->n + 1, n_slots = (size_t)p->n_slots + 2;
    struct repair *m = calloc(1, sizeof *m);
    int err;

    if (m)
        m->block = malloc(n * sizeof *m->order + (2 * n + n_slots) * sizeof *m->starts);
    if (!m || !m->block) {
        err = zero__plan_no_memory(p->n);
        goto err_free;
    }
    err = zero__plan_pile_create(p, &m->pile);
    if (err)
        goto err_free;
    m->p = p;
    m->order = m->block;
    m->starts = (uint32_t *)(m->order + n);
    m->misfit = m->starts + n;
    m->starts_at = m->misfit + n;
    zero__plan_by_slot(p, p->first, m->starts, m->starts_at);
    *out = m;
    return 0;
err_free:
    if (m)
        free(m->block);
    free(m);
    return err;
}

static void repair_destroy(struct repair *m)
{
    zero__plan_pile_destroy(&m->pile);
    free(m->block);
    free(m);
}

/* How far a buffer lies above the target. */
static uint64_t excess(const struct repair *m, uint32_t b)
{
    uint64_t end = m->pile.offset[b] + m->p->size[b];
    return end > m->target ? end - m->target : 0;
}

static void misfits_find(struct repair *m)
{
    m->n_misfits = 0;
    for (uint32_t b = 0; b < m->p->n; b++)
        if (excess(m, b) > 0)
            m->misfit[m->n_misfits++] = b;
    m->pile.effort += 1 + m->p->n / BUFFERS_A_STEP;
}

/* Takes out what lives within the slots first .. last - 1; false, and nothing done, if that is too
 * much. *over: what it had above the target. */
static bool window_empty(struct repair *m, uint32_t first, uint32_t last, uint64_t *over)
{
    const struct zero__plan_problem *p = m->p;

    m->n_moved = 0;
    *over = 0;
    for (uint32_t k = m->starts_at[first]; k < m->starts_at[last]; k++) {
        uint32_t b = m->starts[k];
        if (p->last[b] > last)
            continue;
        if (m->n_moved == MOST_MOVED)
            return false;
        m->moved[m->n_moved++] = b;
    }
    for (uint32_t k = 0; k < m->n_moved; k++) {
        uint32_t b = m->moved[k];
        *over += excess(m, b);
        m->old[k] = m->pile.offset[b];
        zero__plan_pile_remove(&m->pile, b);
    }
    return true;
}

/* Places what was taken out anew, in the order of a rule or, later on, one near it at random.
 * Returns what lies above the target. */
static uint64_t window_fill(struct repair *m, uint64_t attempt)
{
    enum zero__plan_rule rule = (enum zero__plan_rule)(attempt % ZERO__PLAN_N_RULES);
    uint64_t over = 0;

    for (uint32_t k = 0; k < m->n_moved; k++) {
        uint32_t b = m->moved[k];
        double chance = zero__plan_chance(b ^ attempt << 32);
        double key = zero__plan_rank(m->p, rule, b);
        m->order[k].key = attempt < ZERO__PLAN_N_RULES ? key : key * (1 + chance);
        m->order[k].buffer = b;
    }
    zero__plan_ranked_sort(m->order, m->n_moved);
    for (uint32_t k = 0; k < m->n_moved; k++) {
        uint32_t b = m->order[k].buffer;
        uint64_t at = zero__plan_pile_find(&m->pile, b, ZERO__PLAN_FIRST_FIT, UINT64_MAX);
        zero__plan_pile_place(&m->pile, b, at);
        over += excess(m, b);
    }
    return over;
}

/* One try at the window that reaches so many slots around buffer i. */
static void window_try(struct repair *m, uint32_t i, uint32_t reach, uint64_t attempt)
{
    const struct zero__plan_problem *p = m->p;
    uint32_t first = p->first[i] > reach ? p->first[i] - reach : 0;
    uint32_t last = p->n_slots - p->last[i] > reach ? p->last[i] + reach : p->n_slots;
    uint64_t before;

    m->pile.effort++;
    if (!window_empty(m, first, last, &before) || window_fill(m, attempt) <= before)
        return;
    for (uint32_t k = 0; k < m->n_moved; k++)
        zero__plan_pile_remove(&m->pile, m->moved[k]);
    for (uint32_t k = 0; k < m->n_moved; k++)
        zero__plan_pile_place(&m->pile, m->moved[k], m->old[k]);
}

int zero__plan_repair(const struct zero__plan_problem *p, uint64_t target, uint64_t limit,
                      struct zero__plan_best *best, uint64_t *effort)
{
    static const uint32_t reaches[] = {1, 2, 3, 4, 6, 8};
    struct repair *m = NULL;
    int err = repair_create(p, &m);

    if (err)
        return err;
    m->target = target;
    zero__plan_pile_stack(&m->pile, best->offset, NULL, m->order);
    misfits_find(m);
    for (uint64_t t = 0; m->n_misfits > 0 && m->pile.effort < limit; t++) {
        uint32_t reach = reaches[t / TRIES % (sizeof reaches / sizeof *reaches)];
        for (uint32_t k = 0; k < m->n_misfits && m->pile.effort < limit; k++)
            if (excess(m, m->misfit[k]) > 0)
                window_try(m, m->misfit[k], reach, t);
        misfits_find(m);
    }
    zero__plan_best_take(best, p, m->pile.offset, "greedy, then repair");
    *effort += m->pile.effort;
    repair_destroy(m);
    return 0;
}
