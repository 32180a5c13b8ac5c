/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Effort is counted in steps of about equal cost: one for each choice made, and one for every few
 * slots looked at. The memory of hopeless states is a table of fixed size in which later entries
 * overwrite earlier ones; a state is known by a 64-bit key of what is unplaced and of all floors.
 */
#include "memory/plan_search.h"

#include <stdlib.h>
#include <string.h>

#include "memory/plan_valley.h"

#define MOST_CHOICES 48u /* at one corner; a corner with more is not worth deciding */
#define MOST_DEPTH 4096u /* branchings and splits above each other: bounds the stack */
#define TABLE_ENTRIES 65536u
#define SLOTS_A_STEP 32u /* looked at for one unit of effort */
#define CHOICES_A_STEP 8u
#define RESTART 2000u /* effort of the shortest run */

struct part {
    uint32_t first, last;
};

struct zero__plan_search {
    struct zero__plan_skyline sky;
    enum zero__plan_order order;
    uint64_t seed, salt;
    uint64_t effort, limit;
    const _Atomic uint32_t *winner;
    uint32_t rank, depth;
    struct zero__plan_choice *choices; /* stack of the open branchings' choices */
    struct part *parts;                /* stack of the open splits' parts */
    uint32_t n_choices, n_parts, room; /* room of both */
    struct zero__plan_choice scratch[MOST_CHOICES];
    uint64_t table[TABLE_ENTRIES];
};

int zero__plan_search_create(const struct zero__plan_problem *p, struct zero__plan_search **out)
{
    struct zero__plan_search *s = calloc(1, sizeof *s);
    int err;

    if (!s)
        goto err_memory;
    s->room = 8 * p->n + 16 * MOST_CHOICES;
    s->choices = malloc(s->room * sizeof *s->choices);
    s->parts = malloc(s->room * sizeof *s->parts);
    if (!s->choices || !s->parts)
        goto err_memory;
    err = zero__plan_skyline_create(p, &s->sky);
    if (err)
        goto err_free;
    *out = s;
    return 0;
err_memory:
    err = zero__plan_no_memory(p->n);
err_free:
    if (s) {
        free(s->parts);
        free(s->choices);
        free(s);
    }
    return err;
}

void zero__plan_search_destroy(struct zero__plan_search *s)
{
    if (!s)
        return;
    zero__plan_skyline_destroy(&s->sky);
    free(s->parts);
    free(s->choices);
    free(s);
}

static enum zero__plan_outcome part_solve(struct zero__plan_search *s, struct part part);

static bool slot_starts(const struct zero__plan_skyline *sky, uint32_t k)
{
    for (uint32_t j = sky->starts_at[k]; j < sky->starts_at[k + 1]; j++)
        if (!sky->placed[sky->starts[j]])
            return true;
    return false;
}

/* Pushes the parts of time between which no unplaced buffer reaches, short ones first. False when
 * there is no room. */
static bool parts_push(struct zero__plan_search *s, struct part whole)
{
    const struct zero__plan_skyline *sky = &s->sky;
    uint32_t base = s->n_parts;

    for (uint32_t k = whole.first, end; k < whole.last; k = end) {
        for (end = k + 1; end < whole.last && sky->cross[end];)
            end++;
        if (end == k + 1 && !slot_starts(sky, k))
            continue;
        if (s->n_parts == s->room)
            return false;
        uint32_t j = s->n_parts++;
        for (; j > base && s->parts[j - 1].last - s->parts[j - 1].first > end - k; j--)
            s->parts[j] = s->parts[j - 1];
        s->parts[j] = (struct part){k, end};
    }
    return true;
}

static enum zero__plan_outcome parts_solve(struct zero__plan_search *s, uint32_t base)
{
    enum zero__plan_outcome r = ZERO__PLAN_FOUND;

    s->depth++;
    for (uint32_t k = base; k < s->n_parts && r == ZERO__PLAN_FOUND; k++)
        r = part_solve(s, s->parts[k]);
    s->depth--;
    return r;
}

/* Finds the corner with the fewest choices, the lowest valley among equals, and pushes its choices.
 * Returns how many there are (which may be more than were pushed), 0 if some corner has none. */
static uint32_t corner_choose(struct zero__plan_search *s, struct part part)
{
    struct zero__plan_skyline *sky = &s->sky;
    struct zero__plan_choice *best = s->choices + s->n_choices;
    uint32_t fewest = UINT32_MAX;
    uint64_t lowest = 0;

    for (uint32_t k = part.first, end; k < part.last; k = end) {
        struct zero__plan_valley v = {.first = k, .height = sky->floor[k]};
        for (end = k + 1; end < part.last && sky->floor[end] == v.height;)
            end++;
        v.last = end;
        v.left_wall = k == part.first ? UINT64_MAX : sky->floor[k - 1];
        v.right_wall = end == part.last ? UINT64_MAX : sky->floor[end];
        if (v.left_wall < v.height || v.right_wall < v.height)
            continue;
        for (int right = 0; right < 2; right++) {
            uint32_t n = zero__plan_valley_choices(sky, &v, right, s->order, s->seed, s->scratch,
                                                   MOST_CHOICES);
            s->effort += n / CHOICES_A_STEP;
            if (n == 0)
                return 0;
            if (n < fewest || (n == fewest && v.height < lowest)) {
                fewest = n;
                lowest = v.height;
                memcpy(best, s->scratch, (n < MOST_CHOICES ? n : MOST_CHOICES) * sizeof *best);
            }
        }
        if (fewest == 1)
            break;
    }
    return fewest;
}

static bool choice_apply(struct zero__plan_search *s, const struct zero__plan_choice *c)
{
    s->effort++;
    if (c->buffer == ZERO__PLAN_NOBODY)
        return zero__plan_skyline_raise(&s->sky, c->first, c->last, c->height);
    zero__plan_skyline_place(&s->sky, c->buffer, c->height);
    return true;
}

static uint64_t state_key(const struct zero__plan_search *s, struct part part)
{
    uint64_t key = s->salt + ((uint64_t)part.first << 32 | part.last);
    for (uint32_t k = part.first; k < part.last; k++)
        key = zero__plan_hash(key ^ s->sky.floor[k]) + s->sky.key[k];
    return zero__plan_hash(key);
}

/* Tries the n choices on top of the stack in turn, the best first. */
static enum zero__plan_outcome choices_try(struct zero__plan_search *s, struct part part,
                                           uint32_t n)
{
    struct zero__plan_choice *c = s->choices + s->n_choices;
    struct zero__plan_mark mark = zero__plan_skyline_mark(&s->sky);
    enum zero__plan_outcome r = ZERO__PLAN_NONE;

    for (uint32_t k = 1; k < n; k++) {
        struct zero__plan_choice x = c[k];
        uint32_t j = k;
        for (; j > 0 && c[j - 1].merit < x.merit; j--)
            c[j] = c[j - 1];
        c[j] = x;
    }
    s->n_choices += n;
    s->depth++;
    for (uint32_t k = 0; k < n && r == ZERO__PLAN_NONE; k++) {
        r = choice_apply(s, &c[k]) ? part_solve(s, part) : ZERO__PLAN_SPENT;
        if (r != ZERO__PLAN_FOUND)
            zero__plan_skyline_undo(&s->sky, mark);
    }
    s->depth--;
    s->n_choices -= n;
    return r;
}

static bool is_spent(const struct zero__plan_search *s)
{
    return s->effort >= s->limit || s->depth >= MOST_DEPTH ||
           s->n_choices + MOST_CHOICES > s->room ||
           atomic_load_explicit(s->winner, memory_order_relaxed) < s->rank;
}

/* Solves one part of time; leaves the state as it was unless it succeeds. */
static enum zero__plan_outcome part_solve(struct zero__plan_search *s, struct part part)
{
    struct zero__plan_mark mark = zero__plan_skyline_mark(&s->sky);
    enum zero__plan_outcome r = ZERO__PLAN_SPENT;
    uint32_t base = s->n_parts, n;

    for (;;) {
        s->effort += (part.last - part.first) / SLOTS_A_STEP;
        if (is_spent(s) || !parts_push(s, part))
            break;
        bool is_whole = s->n_parts == base + 1 && s->parts[base].first == part.first &&
                        s->parts[base].last == part.last;
        if (!is_whole) {
            r = parts_solve(s, base);
            break;
        }
        s->n_parts = base;
        n = corner_choose(s, part);
        if (n == 1) {
            if (choice_apply(s, s->choices + s->n_choices))
                continue;
            break;
        }
        if (n == 0) {
            r = ZERO__PLAN_NONE;
            break;
        }
        if (n > MOST_CHOICES)
            break;
        uint64_t key = state_key(s, part), *entry = &s->table[key % TABLE_ENTRIES];
        if (*entry == key) {
            r = ZERO__PLAN_NONE;
            break;
        }
        r = choices_try(s, part, n);
        if (r == ZERO__PLAN_NONE)
            *entry = key;
        break;
    }
    s->n_parts = base;
    if (r != ZERO__PLAN_FOUND)
        zero__plan_skyline_undo(&s->sky, mark);
    return r;
}

enum zero__plan_outcome zero__plan_search_run(struct zero__plan_search *s, uint64_t capacity,
                                              uint64_t seed, uint64_t limit,
                                              const _Atomic uint32_t *winner, uint32_t rank,
                                              uint64_t *offset, uint64_t *effort)
{
    static const enum zero__plan_order orders[] = {ZERO__PLAN_BY_LENGTH, ZERO__PLAN_BY_AREA,
                                                   ZERO__PLAN_BY_SIZE, ZERO__PLAN_AT_RANDOM};
    const struct zero__plan_problem *p = s->sky.p;
    enum zero__plan_outcome r = ZERO__PLAN_SPENT;

    if (p->bound > capacity)
        return ZERO__PLAN_NONE;
    s->winner = winner;
    s->rank = rank;
    s->effort = s->depth = 0;
    s->n_choices = s->n_parts = 0;
    s->salt = zero__plan_hash(seed ^ capacity);
    for (uint64_t k = 0; r == ZERO__PLAN_SPENT && s->effort < limit &&
                         atomic_load_explicit(winner, memory_order_relaxed) >= rank;
         k++) {
        uint64_t run = (RESTART + 2 * (uint64_t)p->n) * zero__plan_luby(k / 4 + 1);
        s->order = orders[k % 4];
        s->seed = zero__plan_hash(seed + k);
        s->limit = limit - s->effort < run ? limit : s->effort + run;
        zero__plan_skyline_reset(&s->sky, capacity);
        s->effort += 1 + (p->n + p->n_slots) / SLOTS_A_STEP;
        r = part_solve(s, (struct part){0, p->n_slots});
    }
    *effort += s->effort;
    if (r == ZERO__PLAN_FOUND)
        memcpy(offset, s->sky.offset, p->n * sizeof *offset);
    return r;
}
