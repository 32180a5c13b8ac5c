/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a case against a reference that is computed element by element, bit for bit: comm.h says
 * in which order ranks are added and how sums are rounded.
 */
#include "config.h"

#include "case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/common/values.h"

/*
 * Element i of rank r's source, as its bits: of what --fresh wrote last, or any number. What the
 * check before has left behind, which nothing overwrites where ranks map their memory, must not
 * pass as the result of this one.
 */
static uint64_t element(const struct coll_case *c, bool fresh, int rank, uint64_t i)
{
    uint32_t byte = fresh ? (unsigned char)coll_fresh_value(c->fresh_turn, rank) : 0;

    if (fresh)
        return c->o->dtype == ZERO_F32 ? byte * 0x01010101u : byte * 0x0101u;
    return value_round(c->o->dtype, value_plain(c->n_checks, (uint64_t)rank, i));
}

/* Element i of all ranks, as struct zero_coll prescribes. */
static uint64_t reduced(const struct coll_case *c, bool fresh, uint64_t i)
{
    uint32_t t = c->o->dtype;
    float sum = value_float(t, element(c, fresh, 0, i));

    for (int r = 1; r < c->o->ranks; r++)
        sum += value_float(t, element(c, fresh, r, i));
    return value_round(t, sum * (1.0f / (float)c->o->ranks));
}

static uint64_t expected(const struct coll_case *c, bool fresh, uint64_t i)
{
    switch (c->op) {
    case COLL_ALL_GATHER:
    case COLL_MAP:
        return element(c, fresh, (int)(i / c->count), i % c->count);
    case COLL_REDUCE_SCATTER:
        return reduced(c, fresh, (uint64_t)c->b->rank * c->count + i);
    case COLL_ALL_REDUCE:
        return reduced(c, fresh, i);
    case COLL_PING_PONG:
        return element(c, fresh, !c->b->rank, i);
    default:
        return element(c, fresh, 0, i);
    }
}

/* How many elements this rank gets. */
static uint64_t results(const struct coll_case *c)
{
    if (c->op == COLL_BARRIER || (c->op == COLL_BROADCAST && c->b->rank == 0))
        return 0;
    return c->op == COLL_ALL_GATHER || c->op == COLL_MAP ? c->count * (uint64_t)c->o->ranks
                                                         : c->count;
}

/* Is the result `at` bytes behind its place right? `fresh`: that of what was written last. */
static bool compare(const struct coll_case *c, bool fresh, uint64_t at)
{
    const char *result = c->op == COLL_MAP ? c->map : coll_result(c) + at;
    uint32_t t = c->o->dtype;
    char which[40] = "";

    if (fresh)
        snprintf(which, sizeof which, " that were just written");
    else if (at)
        snprintf(which, sizeof which, " in slot %" PRIu64, at / (2 * c->half));
    for (uint64_t i = 0, n = results(c); i < n; i++) {
        uint64_t is = value_load(t, result, i), wanted = expected(c, fresh, i);
        if (is == wanted)
            continue;
        fprintf(stderr,
                "zero bench %s: %s of %" PRIu64 " bytes%s: element %" PRIu64 " on rank %d is %.9g, "
                "not %.9g: %s%s is at fault, its figures mean nothing\n",
                c->o->bench, c->name, c->bytes, which, i, c->b->rank, (double)value_float(t, is),
                (double)value_float(t, wanted), c->o->spoil ? "--spoil" : "comm plugin ",
                c->o->spoil ? "" : c->o->comm);
        return false;
    }
    return true;
}

static int everywhere(struct coll_case *c, bool good, bool *ok)
{
    int32_t mine = good, all[ZERO__JOB_MAX_RANKS];
    int err = tool_comm_gather(c->b, &mine, sizeof mine, all);

    for (int r = 0; !err && r < c->o->ranks; r++)
        *ok &= all[r] != 0;
    return err;
}

/* Changes a byte of the result `at` bytes behind its place; of what is mapped this rank's part is
 * the only one that may be written. */
static void spoil(const struct coll_case *c, uint64_t at)
{
    uint64_t size = zero_dtype_bytes(c->o->dtype);

    if (!c->o->spoil || !results(c))
        return;
    if (c->op == COLL_MAP)
        coll_source(c)[(c->count - 1) * size] ^= 1;
    else
        coll_result(c)[at + (results(c) - 1) * size] ^= 1;
}

int coll_check_fresh(struct coll_case *c, bool *ok)
{
    spoil(c, c->fresh_slot);
    return everywhere(c, compare(c, true, c->fresh_slot), ok);
}

static int slot_check(struct coll_case *c, unsigned slot, bool *ok)
{
    uint64_t size = zero_dtype_bytes(c->o->dtype), at = (uint64_t)slot * 2 * c->half;

    c->n_checks++;
    if (c->op != COLL_MAP && results(c)) /* before the source, which may overlap */
        memset(coll_result(c) + at, 0x5a, results(c) * size);
    for (uint64_t i = 0; i < coll_n_sources(c); i++)
        value_store(c->o->dtype, coll_source(c) + at, i, element(c, false, c->b->rank, i));
    c->turn = slot;
    int err = coll_case_run(c);
    if (err)
        return err;
    spoil(c, at);
    return everywhere(c, compare(c, false, at), ok);
}

int coll_check(struct coll_case *c, bool *ok)
{
    int err = slot_check(c, 0, ok);

    /* Any other one: the same on all ranks, and in every run. */
    if (!err && c->n_slots > 1)
        err = slot_check(c, 1 + (unsigned)(mix(c->n_checks, 0, 0) % (c->n_slots - 1)), ok);
    return err;
}
