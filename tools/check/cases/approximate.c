/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of plugins that are not ORDERED: they may add in any order, and no more. So each element
 * lies as near the true sum as additions in fp32 and one rounding can bring it, all ranks of an
 * all_reduce have the same bits, and the same call again gives them again.
 */
#include <math.h>
#include <string.h>

#include "rank.h"
#include "tools/common/values.h"

#define SLAB (UINT64_C(4) << 20)
#define GUARD 64

struct sums {
    struct zero_coll q;
    uint64_t src, dst, seed;
    int rank, ranks;
};

/* Small numbers with both signs, none of them rounded by its type but in the last places. */
static uint64_t number(uint32_t dtype, uint64_t seed, uint64_t rank, uint64_t i)
{
    double x = (double)(int64_t)(mix(seed, rank, i) >> 44) / (1 << 19) - 1;

    return dtype == ZERO_F64 ? bits_of(x) : value_round(dtype, (float)x);
}

static long double number_of(uint32_t dtype, uint64_t bits)
{
    return dtype == ZERO_F64 ? (long double)double_of(bits) : (long double)value_float(dtype, bits);
}

/* How far a sum of these may be from the truth: a unit in the last place of each partial sum. */
static long double slack(const struct sums *s, long double sizes, long double result)
{
    const struct zero_coll *q = &s->q;
    long double unit = q->src_dtype == ZERO_F64 ? 0x1p-53L : 0x1p-24L, round = unit;

    if (q->dst_dtype == ZERO_BF16)
        round = 0x1p-8L;
    else if (q->dst_dtype == ZERO_F16)
        round = 0x1p-11L;
    if (q->redop == ZERO_MAX)
        return round * fabsl(result);
    return (s->ranks + 3) * unit * sizes + round * fabsl(result) +
           (q->dst_dtype == ZERO_F16 ? 0x1p-24L : 0);
}

/* The true value of element i of the destination, and the sum of all sizes. */
static long double truth(const struct sums *s, uint64_t i, long double *sizes)
{
    const struct zero_coll *q = &s->q;
    uint64_t at = i + (q->kind == ZERO_REDUCE_SCATTER ? (uint64_t)s->rank * q->count : 0);
    long double sum = 0;

    *sizes = 0;
    for (int p = 0; p < s->ranks; p++) {
        long double x = number_of(q->src_dtype, number(q->src_dtype, s->seed, (uint64_t)p, at)) *
                        (long double)q->scale;
        sum = q->redop == ZERO_SUM || p == 0 ? sum + x : x > sum ? x : sum;
        *sizes += fabsl(x);
    }
    if (q->flags & ZERO_COLL_ACCUMULATE) {
        long double old = number_of(ZERO_F32, number(ZERO_F32, s->seed, 999, i));
        *sizes += fabsl(old);
        sum += old;
    }
    return sum;
}

static void fill(struct check_comm *c, const struct sums *s)
{
    const struct zero_coll *q = &s->q;
    uint32_t size = zero_dtype_bytes(q->src_dtype);

    memset(c->memory + s->dst - GUARD, 0xa5, q->dst.len + 2 * GUARD);
    if (q->flags & ZERO_COLL_ACCUMULATE)
        for (uint64_t i = 0; i < q->count; i++)
            value_store(ZERO_F32, c->memory + s->dst, i, number(ZERO_F32, s->seed, 999, i));
    for (uint64_t i = 0; i < q->src.len / size; i++)
        value_store(q->src_dtype, c->memory + s->src, i,
                    number(q->src_dtype, s->seed, (uint64_t)s->rank, i));
}

static void compare(struct check_comm *c, const struct sums *s)
{
    const struct zero_coll *q = &s->q;
    char text[CHECK_COLL];

    check_coll(q, s->seed, text);
    /* Of many elements some; that all ranks have the same bits is seen in all of them. */
    for (uint64_t i = 0; i<q->count; i += q->count> 10000 ? 13 : 1) {
        long double sizes, want_value = truth(s, i, &sizes);
        long double got = number_of(q->dst_dtype, value_load(q->dst_dtype, c->memory + s->dst, i));
        if (!want(c->r, fabsl(got - want_value) <= slack(s, sizes, want_value),
                  "%s: element %" PRIu64 " is %.12Lg, want %.12Lg", text, i, got, want_value))
            return;
    }
    for (uint64_t i = 0; i < GUARD && !(q->flags & ZERO_COLL_INPLACE); i++)
        if (!want(c->r,
                  (unsigned char)c->memory[s->dst - 1 - i] == 0xa5 &&
                      (unsigned char)c->memory[s->dst + q->dst.len + i] == 0xa5,
                  "%s: bytes around the destination have changed", text))
            return;
}

static uint64_t hash(const char *at, uint64_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (uint64_t i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)at[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Do all ranks have that number? */
static void same_everywhere(struct check_comm *c, struct zero_comm *comm, const struct sums *s,
                            uint64_t x)
{
    struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                          .src_dtype = ZERO_I64,
                          .dst_dtype = ZERO_I64,
                          .scale = 1,
                          .count = 1,
                          .src = check_slice(c, 0, 8),
                          .dst = check_slice(c, 64, 8 * (uint64_t)s->ranks)};
    char text[CHECK_COLL];

    if (!check_can(c->r, &q))
        return;
    value_store(ZERO_I64, c->memory, 0, x);
    if (!want(c->r, check_run(c, comm, &q) >= 0, "all_gather: %s", c->r->ended))
        return;
    for (int p = 0; p < s->ranks; p++)
        want(c->r, value_load(ZERO_I64, c->memory + 64, (uint64_t)p) == x,
             "%s: ranks %d and %d have different bits", check_coll(&s->q, s->seed, text), s->rank,
             p);
}

void check_approximate(struct check_comm *c, struct zero_comm *comm, int rank, int ranks,
                       struct zero_coll q, uint64_t seed)
{
    uint64_t n = q.count * (uint64_t)ranks, half = c->bytes / 2, before = 0, after;
    struct sums s = {.seed = seed, .rank = rank, .ranks = ranks};
    char text[CHECK_COLL];

    s.src = 1024 + GUARD + seed % 13 * zero_dtype_bytes(q.src_dtype);
    s.dst = half + GUARD + seed % 11 * zero_dtype_bytes(q.dst_dtype);
    q.src.len = (q.kind == ZERO_REDUCE_SCATTER ? n : q.count) * zero_dtype_bytes(q.src_dtype);
    q.dst.len = q.count * zero_dtype_bytes(q.dst_dtype);
    if (q.flags & ZERO_COLL_INPLACE)
        s.dst = s.src + (q.kind == ZERO_REDUCE_SCATTER ? (uint64_t)rank * q.dst.len : 0);
    if (q.src.len > half - 2048 || q.dst.len > half - 2048)
        return;
    q.src = check_slice(c, s.src, q.src.len);
    q.dst = check_slice(c, s.dst, q.dst.len);
    q.sequence = seed;
    s.q = q;
    for (int again = 0; again < 2; again++, before = after) {
        fill(c, &s);
        int64_t res = check_run(c, comm, &q);
        if (!want(c->r, res == (int64_t)q.dst.len, "%s: %s, want %" PRIu64,
                  check_coll(&q, seed, text), c->r->ended, q.dst.len))
            return;
        after = hash(c->memory + s.dst, q.dst.len);
        want(c->r, !again || after == before, "%s: other bits the second time", text);
    }
    compare(c, &s);
    if (q.kind == ZERO_ALL_REDUCE)
        same_everywhere(c, comm, &s, after);
}

void check_case_approximate(struct check_rank *r)
{
    static const uint64_t sizes[] = {0, 1, 3, 63, 64, 65, 1000, 4097, 30001};
    static const uint32_t pairs[][2] = {{ZERO_F32, ZERO_F32},  {ZERO_BF16, ZERO_BF16},
                                        {ZERO_F16, ZERO_F16},  {ZERO_BF16, ZERO_F32},
                                        {ZERO_F32, ZERO_BF16}, {ZERO_F64, ZERO_F64}};
    uint64_t seed = r->seed + 12000;
    struct check_comm c;

    if (!check_open(r, &c, SLAB)) {
        check_close(&c);
        return;
    }
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned t = 0; t < sizeof pairs / sizeof *pairs; t++)
            for (unsigned k = 0; k < 16; k++) {
                struct zero_coll q = {.kind = k & 1 ? ZERO_ALL_REDUCE : ZERO_REDUCE_SCATTER,
                                      .src_dtype = pairs[t][0],
                                      .dst_dtype = pairs[t][1],
                                      .redop = k & 2 ? ZERO_MAX : ZERO_SUM,
                                      .scale = k & 2 ? 1 : 1.0f / 3,
                                      .count = sizes[i]};
                bool equal = q.src_dtype == q.dst_dtype;
                q.flags = (k & 4 ? ZERO_COLL_INPLACE : 0) | (k & 8 ? ZERO_COLL_ACCUMULATE : 0);
                if ((k & 4 && (!equal || k & 8)) || (k & 8 && (k & 2 || q.dst_dtype != ZERO_F32)) ||
                    !check_can(r, &q))
                    continue;
                check_approximate(&c, c.world, r->rank, r->ranks, q, ++seed);
            }
    want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    check_close(&c);
}
