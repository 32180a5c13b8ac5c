/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's part of more than 2 GiB: lengths that no int holds, and more than one message where a
 * transport carries less. It takes that much memory for every part on every rank, so it is asked
 * for.
 */
#include "rank.h"

#define PART ((UINT64_C(2) << 30) + (UINT64_C(64) << 10))
#define COUNT (PART / sizeof(float))
#define WAIT_NS (INT64_C(100) * 1000 * 1000 * 1000) /* ranks fill and compare gigabytes between */
#define CYCLE 4093u /* a prime: no power of two bytes away is the same value */

/* Exact, and so are sums of CHECK_RANKS of them. */
static float value(uint64_t i, int rank)
{
    return (float)(i % CYCLE + (uint64_t)rank);
}

/* Complains about the first element of a rank's part that is not value(i) * of + more. */
static void compare(struct check_rank *r, uint32_t kind, int rank, const float *part,
                    uint64_t first, float of, float more)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        float due = value(first + i, 0) * of + more;
        if (part[i] == due)
            continue;
        want(r, false, "%s: element %" PRIu64 " of rank %d is %.9g, want %.9g",
             zero_coll_name(kind), i, rank, (double)part[i], (double)due);
        return;
    }
}

static void gather(struct check_comm *c)
{
    struct zero_coll q = check_gather(c, COUNT);
    struct check_rank *r = c->r;
    float *all = (float *)c->memory, *mine = all + (uint64_t)r->rank * COUNT;

    for (uint64_t i = 0; i < COUNT; i++)
        mine[i] = value(i, r->rank);
    q.flags = ZERO_COLL_INPLACE;
    q.src = check_slice(c, (uint64_t)r->rank * PART, PART);
    q.dst = check_slice(c, 0, (uint64_t)r->ranks * PART);
    int64_t res = check_run(c, c->world, &q);
    if (!want(r, res == (int64_t)q.dst.len, "all_gather: %s, want %" PRIu64, r->ended,
              q.dst.len))
        return;
    for (int p = 0; p < r->ranks; p++)
        compare(r, q.kind, p, all + (uint64_t)p * COUNT, 0, 1, (float)p);
}

static void reduce(struct check_comm *c)
{
    struct zero_coll q = check_gather(c, COUNT);
    struct check_rank *r = c->r;
    uint64_t n = (uint64_t)r->ranks, first = (uint64_t)r->rank * COUNT;
    float *all = (float *)c->memory;

    for (uint64_t i = 0; i < n * COUNT; i++)
        all[i] = value(i, r->rank);
    q.kind = ZERO_REDUCE_SCATTER;
    q.flags = ZERO_COLL_INPLACE;
    q.src = check_slice(c, 0, n * PART);
    q.dst = check_slice(c, (uint64_t)r->rank * PART, PART);
    int64_t res = check_run(c, c->world, &q);
    if (!want(r, res == (int64_t)PART, "reduce_scatter: %s, want %" PRIu64, r->ended,
              PART))
        return;
    compare(r, q.kind, r->rank, all + first, first, (float)n, (float)(n * (n - 1) / 2));
}

void check_case_huge(struct check_rank *r)
{
    struct zero_coll q = {
        .kind = ZERO_REDUCE_SCATTER, .src_dtype = ZERO_F32, .dst_dtype = ZERO_F32, .scale = 1};
    struct check_comm c;

    if (check_open(r, &c, (uint64_t)r->ranks * PART)) {
        c.wait_ns = WAIT_NS;
        gather(&c);
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
        if (check_can(r, &q))
            reduce(&c);
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}
