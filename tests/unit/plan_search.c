/* SPDX-License-Identifier: Apache-2.0 */
/* The depth-first search against trying every order: on small tasks it must find a plan whenever
 * there is one, and say so when there is none. */
#include "memory/plan_search.h"

#include "../tap.h"
#include "memory/plan_merge.h"

#define SEED UINT64_C(31337)
#define ROUNDS 4000
#define MOST 12
#define TIMES 12

static uint64_t random_state = SEED;

static uint64_t random_below(uint64_t n)
{
    return zero__plan_hash(random_state++) % n;
}

/* Whether some order of stacking stays within the capacity: if there is a plan, the buffers in the
 * order of its offsets do. */
static bool can_stack(const struct zero__plan_problem *p, uint32_t placed, const uint64_t *floor,
                      uint64_t capacity)
{
    if (placed == (1u << p->n) - 1)
        return true;
    for (uint32_t s = 0; s < p->n_slots; s++) {
        uint64_t need = floor[s];
        for (uint32_t b = 0; b < p->n; b++)
            if (!(placed >> b & 1) && p->first[b] <= s && s < p->last[b])
                need += p->size[b];
        if (need > capacity)
            return false;
    }
    for (uint32_t b = 0; b < p->n; b++) {
        uint64_t next[TIMES], top = 0;
        if (placed >> b & 1)
            continue;
        memcpy(next, floor, sizeof next);
        for (uint32_t s = p->first[b]; s < p->last[b]; s++)
            top = floor[s] > top ? floor[s] : top;
        for (uint32_t s = p->first[b]; s < p->last[b]; s++)
            next[s] = top + p->size[b];
        if (can_stack(p, placed | 1u << b, next, capacity))
            return true;
    }
    return false;
}

/* Random sizes and lives. */
static uint32_t loose_make(struct zero__plan_buffer *b)
{
    uint32_t n = 2 + (uint32_t)random_below(7);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = (uint32_t)random_below(TIMES - 1);
        uint32_t last = first + 1 + (uint32_t)random_below(TIMES - first - 1);
        b[i] = (struct zero__plan_buffer){1 + random_below(9), first, last, 0};
    }
    return n;
}

/* All of the memory is live at all times: what ends is followed by as many bytes, cut anew. */
static uint32_t tight_make(struct zero__plan_buffer *b, uint64_t capacity)
{
    uint64_t freed = capacity;
    uint32_t n = 0;

    for (uint32_t t = 0; t < TIMES; t++) {
        while (freed) {
            uint64_t bytes = 1 + random_below(freed);
            if (n == MOST)
                goto out;
            b[n++] = (struct zero__plan_buffer){bytes, t, TIMES, 0};
            freed -= bytes;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (b[i].last == TIMES && random_below(4) == 0) {
                b[i].last = t + 1;
                freed += b[i].bytes;
            }
        }
    }
out:
    for (uint32_t i = 0; i < n; i++)
        if (b[i].last == b[i].first)
            b[i].last++;
    return n;
}

static unsigned plan_bad(const struct zero__plan_problem *p, struct zero__plan_buffer *b,
                         const uint64_t *offset, uint64_t capacity)
{
    uint32_t x, y;
    unsigned bad = 0;

    for (uint32_t k = 0; k < p->n; k++) {
        b[p->id[k]].offset = offset[k];
        bad += offset[k] + p->size[k] > capacity;
    }
    return bad + (zero__plan_check(b, p->n, &x, &y) != 0);
}

static struct {
    unsigned missed, dreamt, spent, bad, impossible, bad_merge;
} count;

static void search_try(const struct zero__plan_problem *p, struct zero__plan_buffer *b,
                       uint64_t capacity)
{
    const _Atomic uint32_t nobody = UINT32_MAX;
    uint64_t floor[TIMES] = {0}, offset[MOST], effort = 0;
    struct zero__plan_search *s;

    if (zero__plan_search_create(p, &s))
        bail("no memory");
    enum zero__plan_outcome r =
        zero__plan_search_run(s, capacity, random_state, 1000000, &nobody, 0, offset, &effort);
    bool possible = can_stack(p, 0, floor, capacity);
    count.impossible += !possible;
    count.spent += r == ZERO__PLAN_SPENT;
    count.missed += r == ZERO__PLAN_NONE && possible;
    count.dreamt += r == ZERO__PLAN_FOUND && !possible;
    if (r == ZERO__PLAN_FOUND)
        count.bad += plan_bad(p, b, offset, capacity);
    zero__plan_search_destroy(s);
}

/* Whatever is combined, a plan of the smaller task is one of the whole. */
static void merge_try(const struct zero__plan_problem *p, struct zero__plan_buffer *b,
                      uint64_t capacity)
{
    const _Atomic uint32_t nobody = UINT32_MAX;
    struct zero__plan_merge_rule rule = {
        .most_lost = 0.5,
        .keep = 1 + (uint32_t)random_below(4),
        .veto_percent = (uint32_t)random_below(2) * 20,
        .seed = random_state,
    };
    uint64_t offset[MOST], effort = 0;
    struct zero__plan_search *s;
    struct zero__plan_merged m;

    if (zero__plan_merge(p, capacity, &rule, UINT64_MAX, &m, &effort) ||
        zero__plan_search_create(&m.problem, &s))
        bail("no memory");
    count.bad_merge += m.problem.bound > capacity;
    if (zero__plan_search_run(s, capacity, 1, 100000, &nobody, 0, offset, &effort) ==
        ZERO__PLAN_FOUND) {
        zero__plan_merged_expand(&m, offset, offset);
        count.bad_merge += plan_bad(p, b, offset, capacity);
    }
    zero__plan_search_destroy(s);
    zero__plan_merged_destroy(&m);
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct zero__plan_buffer b[MOST];
        struct zero__plan_problem p;
        uint32_t n = round % 4 ? tight_make(b, 5 + random_below(5)) : loose_make(b);
        if (zero__plan_problem_create(b, n, 1, &p))
            bail("no memory");
        search_try(&p, b, p.bound);
        merge_try(&p, b, p.bound + random_below(4));
        zero__plan_problem_destroy(&p);
    }
    if (count.missed + count.dreamt + count.spent + count.bad + count.bad_merge)
        diag("seed %" PRIu64, SEED);
    is_int(count.missed, 0, "a plan at the lower bound is found whenever there is one");
    is_int(count.bad, 0, "and is sound");
    is_int(count.dreamt, 0, "none is claimed where there is none");
    is_int(count.spent, 0, "and the search knows that there is none");
    ok(count.impossible >= 3, "as in %u of %u tasks", count.impossible, ROUNDS);
    is_int(count.bad_merge, 0, "combined buffers stay apart and within the capacity");
    done();
}
