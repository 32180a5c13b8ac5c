/* SPDX-License-Identifier: Apache-2.0 */
/* The check of `zero bench coll` against operations that do not always do their work. */
#include "tools/bench/coll/case.h"

#include <string.h>

#include "../tap.h"

#define COUNT 24u
#define HALF 4096u
#define SLOTS 5u

static struct {
    unsigned n;    /* operations so far */
    unsigned last; /* that do anything */
    bool first_slot_only;
    unsigned other_slots; /* operations that were not in the slot 0 */
} fake;

static char memory[SLOTS * 2 * HALF], mapped[HALF];

/* ---- What the check calls -------------------------------------------------------------------- */

char *coll_source(const struct coll_case *c)
{
    return c->op == COLL_MAP ? c->map_region.base : c->region->base;
}

char *coll_result(const struct coll_case *c)
{
    return c->region->base + c->half;
}

uint64_t coll_n_sources(const struct coll_case *c)
{
    return c->count;
}

char coll_fresh_value(unsigned turn, int rank)
{
    return (char)(turn + (unsigned)rank);
}

int coll_case_run(struct coll_case *c)
{
    unsigned slot = c->turn++ % c->n_slots;
    uint64_t at = (uint64_t)slot * 2 * c->half;

    fake.other_slots += slot > 0;
    if (fake.n++ >= fake.last || (slot && fake.first_slot_only))
        return 0;
    memcpy(c->op == COLL_MAP ? mapped : coll_result(c) + at, coll_source(c) + at, c->bytes);
    return 0;
}

int tool_comm_gather(struct tool_comm *b, const void *mine, uint32_t bytes, void *all)
{
    (void)b;
    memcpy(all, mine, bytes);
    return 0;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Checks a case twice, as before and after the repetitions; `last` as in fake. */
static void checked_twice(enum coll_op op, unsigned n_slots, unsigned last, bool first_slot_only,
                          bool out[2])
{
    struct coll_options o = {
        .bench = "coll", .comm = "fake", .ranks = 1, .dtype = ZERO_F32, .check = true};
    struct tool_comm b = {.ranks = 1};
    struct tool_region region = {.base = memory};
    struct coll_case c = {.b = &b,
                          .o = &o,
                          .op = op,
                          .name = "fake",
                          .bytes = COUNT * sizeof(float),
                          .count = COUNT,
                          .half = HALF,
                          .n_slots = n_slots,
                          .region = &region,
                          .map_region = {.base = memory},
                          .map = mapped};

    fake.n = fake.other_slots = 0;
    fake.last = last;
    fake.first_slot_only = first_slot_only;
    for (int i = 0; i < 2; i++) {
        out[i] = true;
        if (coll_check(&c, &out[i]))
            bail("the check could not be done");
    }
}

int main(void)
{
    bool good[2];

    checked_twice(COLL_ALL_GATHER, 1, 99, false, good);
    ok(good[0] && good[1], "what does its work passes");
    is_int((int)fake.n, 2, "an operation for each check");
    checked_twice(COLL_ALL_GATHER, SLOTS, 99, false, good);
    ok(good[0] && good[1], "also in several slots");
    is_int((int)fake.other_slots, 2, "of which each check tries another one, too");
    checked_twice(COLL_ALL_GATHER, SLOTS, 99, true, good);
    ok(!good[0] && !good[1], "what works in the first slot only does not pass");
    checked_twice(COLL_MAP, 1, 99, false, good);
    ok(good[0] && good[1], "a map that does its work passes");
    checked_twice(COLL_MAP, 1, 1, false, good);
    ok(good[0] && !good[1], "not one that shows what was written before the last check");
    checked_twice(COLL_BROADCAST, 1, 0, false, good);
    ok(good[0] && good[1], "the root of a broadcast gets nothing that could be wrong");
    done();
}
