/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective against the plainest C, bit for bit: all types that are declared, odd sizes and
 * offsets, in place, accumulating. What lies around a destination must not change, nor a source.
 */
#include <string.h>

#include "rank.h"
#include "tools/common/values.h"

#define SLAB (UINT64_C(4) << 20)
#define LARGE_SLAB (UINT64_C(48) << 20)
/*
 * When this took minutes, the thread sanitizer told of races with writes of two collectives before,
 * which completions that this rank has seen lie between.
 */
#ifdef __SANITIZE_THREAD__
#define LARGE UINT64_C(500003)
#else
#define LARGE UINT64_C(5000003)
#endif
#define GUARD 64

static const uint64_t sizes[] = {0, 1, 3, 63, 64, 65, 1000, 4097, 70001};
#define N_SIZES (sizeof sizes / sizeof *sizes)

struct layout {
    uint64_t src, dst, src_bytes, dst_bytes; /* in the slab */
};

/* Where source and destination lie: odd elements into both halves, or in place. */
static struct layout place(const struct zero_coll *c, uint64_t half, int rank, int ranks,
                           uint64_t seed)
{
    uint64_t s = zero_dtype_bytes(c->src_dtype), d = zero_dtype_bytes(c->dst_dtype);
    uint64_t n = (uint64_t)ranks * c->count;
    struct layout l = {.src = GUARD + seed % 13 * s, .dst = half + GUARD + seed % 11 * d};

    l.src_bytes = (c->kind == ZERO_REDUCE_SCATTER ? n : c->count) * s;
    l.dst_bytes = (c->kind == ZERO_ALL_GATHER ? n : c->count) * d;
    if (c->kind == ZERO_BROADCAST)
        *(rank == c->root ? &l.dst_bytes : &l.src_bytes) = 0;
    if (c->flags & ZERO_COLL_INPLACE) {
        if (c->kind == ZERO_ALL_GATHER)
            l.src = l.dst + (uint64_t)rank * l.src_bytes;
        else if (c->kind == ZERO_REDUCE_SCATTER)
            l.dst = l.src + (uint64_t)rank * l.dst_bytes;
        else
            l.dst = l.src;
    }
    return l;
}

/* Element i of what rank p sends. */
static uint64_t sent(const struct zero_coll *c, uint64_t seed, int p, uint64_t i)
{
    uint64_t bits = value_bits(c->src_dtype, mix(seed, (uint64_t)p, i));
    uint32_t n = 8 * zero_dtype_bytes(c->src_dtype);
    return n < 64 ? bits & ((UINT64_C(1) << n) - 1) : bits;
}

/* Element i of what this rank must have in its destination. */
static uint64_t wanted(const struct zero_coll *c, uint64_t seed, int rank, int ranks, uint64_t i,
                       uint64_t old)
{
    uint64_t x[CHECK_RANKS] = {0}, at = i, bits;
    uint32_t width = 8 * zero_dtype_bytes(c->dst_dtype);

    if (c->kind == ZERO_ALL_GATHER)
        return sent(c, seed, (int)(i / c->count), i % c->count);
    if (c->kind == ZERO_BROADCAST)
        return sent(c, seed, c->root, i);
    if (c->kind == ZERO_REDUCE_SCATTER)
        at += (uint64_t)rank * c->count;
    for (int p = 0; p < ranks; p++)
        x[p] = sent(c, seed, p, at);
    bits = reduce_reference(c, x, ranks, old);
    return width < 64 ? bits & ((UINT64_C(1) << width) - 1) : bits;
}

static void fill(struct check_comm *c, const struct zero_coll *q, const struct layout *l,
                 uint64_t seed, int rank)
{
    memset(c->memory + l->src - GUARD, 0xa5, l->src_bytes + 2 * GUARD);
    memset(c->memory + l->dst - GUARD, 0xa5, l->dst_bytes + 2 * GUARD);
    if (q->flags & ZERO_COLL_ACCUMULATE)
        for (uint64_t i = 0; i < l->dst_bytes / 4; i++)
            value_store(ZERO_F32, c->memory + l->dst, i, value_bits(ZERO_F32, mix(seed, 55, i)));
    for (uint64_t i = 0; i < l->src_bytes / zero_dtype_bytes(q->src_dtype); i++)
        value_store(q->src_dtype, c->memory + l->src, i, sent(q, seed, rank, i));
}

static bool guards_intact(const char *memory, uint64_t off, uint64_t bytes)
{
    for (uint64_t i = 0; i < GUARD; i++)
        if ((unsigned char)memory[off - 1 - i] != 0xa5 ||
            (unsigned char)memory[off + bytes + i] != 0xa5)
            return false;
    return true;
}

static void compare(struct check_comm *c, const struct zero_coll *q, const struct layout *l,
                    uint64_t seed, int rank, int ranks)
{
    uint32_t size = zero_dtype_bytes(q->dst_dtype);
    struct check_rank *r = c->r;
    char text[CHECK_COLL];

    check_coll(q, seed, text);
    for (uint64_t i = 0; i < l->dst_bytes / size; i++) {
        uint64_t old = value_bits(ZERO_F32, mix(seed, 55, i));
        uint64_t want_bits = wanted(q, seed, rank, ranks, i, old);
        uint64_t got = value_load(q->dst_dtype, c->memory + l->dst, i);
        if (got != want_bits) {
            want(r, false, "%s: element %" PRIu64 " is 0x%" PRIx64 ", want 0x%" PRIx64, text, i,
                 got, want_bits);
            return;
        }
    }
    if (q->flags & ZERO_COLL_INPLACE)
        return;
    want(r, guards_intact(c->memory, l->dst, l->dst_bytes),
         "%s: bytes around the destination have changed", text);
    want(r, guards_intact(c->memory, l->src, l->src_bytes),
         "%s: bytes around the source have changed", text);
    for (uint64_t i = 0; i < l->src_bytes / zero_dtype_bytes(q->src_dtype); i++)
        if (!want(r, value_load(q->src_dtype, c->memory + l->src, i) == sent(q, seed, rank, i),
                  "%s: element %" PRIu64 " of the source has changed", text, i))
            return;
}

void check_exact(struct check_comm *c, struct zero_comm *comm, int rank, int ranks,
                 struct zero_coll q, uint64_t seed)
{
    uint64_t half = c->bytes / 2;
    struct layout l = place(&q, half, rank, ranks, seed);
    char text[CHECK_COLL];
    int64_t res;

    if (q.kind == ZERO_BARRIER) {
        want(c->r, check_run(c, comm, &q) == 0, "barrier: %s", c->r->ended);
        return;
    }
    if (l.src_bytes > half - 512 || l.dst_bytes > half - 512)
        return;
    q.src = check_slice(c, l.src, l.src_bytes);
    q.dst = check_slice(c, l.dst, l.dst_bytes);
    q.sequence = seed;
    q.user = seed ^ 0xabcdef;
    fill(c, &q, &l, seed, rank);
    res = check_run(c, comm, &q);
    if (want(c->r, res == (int64_t)l.dst_bytes, "%s: %s, want %" PRIu64,
             check_coll(&q, seed, text), c->r->ended, l.dst_bytes))
        compare(c, &q, &l, seed, rank, ranks);
}

void check_either(struct check_comm *c, struct zero_comm *comm, int rank, int ranks,
                  struct zero_coll q, uint64_t seed)
{
    bool reduces = q.kind == ZERO_REDUCE_SCATTER || q.kind == ZERO_ALL_REDUCE;

    if (reduces && !(c->r->caps.flags & ZERO_COMM_ORDERED))
        check_approximate(c, comm, rank, ranks, q, seed);
    else
        check_exact(c, comm, rank, ranks, q, seed);
}

static bool has_kind(const struct check_rank *r, uint32_t kind)
{
    return r->caps.kinds & 1u << kind;
}

static void move_all(struct check_comm *c, uint64_t count, uint64_t *seed)
{
    static const uint32_t types[] = {ZERO_F32, ZERO_BF16, ZERO_U8, ZERO_I64};
    struct check_rank *r = c->r;

    for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
        struct zero_coll q = {
            .src_dtype = types[t], .dst_dtype = types[t], .scale = 1, .count = count};
        q.kind = ZERO_ALL_GATHER;
        if (has_kind(r, q.kind)) {
            check_exact(c, c->world, r->rank, r->ranks, q, ++*seed);
            q.flags = ZERO_COLL_INPLACE;
            check_exact(c, c->world, r->rank, r->ranks, q, ++*seed);
        }
        q.flags = 0;
        q.kind = ZERO_BROADCAST;
        if (!has_kind(r, q.kind))
            continue;
        for (q.root = 0; q.root<r->ranks; q.root += r->ranks> 3 ? 3 : 1)
            check_exact(c, c->world, r->rank, r->ranks, q, ++*seed);
    }
}

void check_case_movements(struct check_rank *r)
{
    uint64_t seed = r->seed;
    struct check_comm c;

    if (check_open(r, &c, SLAB)) {
        for (unsigned i = 0; i < N_SIZES; i++)
            move_all(&c, sizes[i], &seed);
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}

static const uint32_t pairs[][2] = {
    {ZERO_F32, ZERO_F32}, {ZERO_BF16, ZERO_BF16}, {ZERO_F16, ZERO_F16}, {ZERO_BF16, ZERO_F32},
    {ZERO_F16, ZERO_F32}, {ZERO_F32, ZERO_BF16},  {ZERO_F32, ZERO_F16}, {ZERO_BF16, ZERO_F16},
    {ZERO_F64, ZERO_F64}, {ZERO_I32, ZERO_I32},   {ZERO_I64, ZERO_I64}, {ZERO_U8, ZERO_U8},
};
#define N_PAIRS (sizeof pairs / sizeof *pairs)
#define N_FLOATS 8u /* of them */

/* Way k of 16 to reduce pair t; false when there is none, or it is not declared. */
static bool reduction(const struct check_rank *r, unsigned t, unsigned k, struct zero_coll *q)
{
    bool floats = t < N_FLOATS, sum = !(k & 2), in_place = k & 4, accumulate = k & 8;

    *q = (struct zero_coll){.kind = k & 1 ? ZERO_ALL_REDUCE : ZERO_REDUCE_SCATTER,
                            .src_dtype = pairs[t][0],
                            .dst_dtype = pairs[t][1],
                            .redop = sum ? ZERO_SUM : ZERO_MAX,
                            .scale = sum && (floats || pairs[t][0] == ZERO_F64) ? 1.0f / 3 : 1};
    q->flags = (in_place ? ZERO_COLL_INPLACE : 0) | (accumulate ? ZERO_COLL_ACCUMULATE : 0);
    if (in_place && (pairs[t][0] != pairs[t][1] || accumulate))
        return false;
    if (accumulate && (!sum || !floats || pairs[t][1] != ZERO_F32))
        return false;
    return check_can(r, q);
}

/*
 * A plugin that is not ORDERED is compared where order does not matter: integers. Even the largest
 * of two zeros of different signs is either; see approximate.c for the others.
 */
static bool is_exact(const struct check_rank *r, unsigned t)
{
    return (r->caps.flags & ZERO_COMM_ORDERED) || t > N_FLOATS;
}

void check_case_reductions(struct check_rank *r)
{
    uint64_t seed = r->seed + 5000;
    struct check_comm c;
    struct zero_coll q;

    if (check_open(r, &c, SLAB)) {
        for (unsigned i = 0; i < N_SIZES; i++)
            for (unsigned t = 0; t < N_PAIRS; t++)
                for (unsigned k = 0; k < 16; k++)
                    if ((sizes[i] < 10000 || r->ranks <= 3) && reduction(r, t, k, &q) &&
                        is_exact(r, t)) {
                        q.count = sizes[i];
                        check_exact(&c, c.world, r->rank, r->ranks, q, ++seed);
                    }
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}

/* Larger than any buffer on the way. */
void check_case_large(struct check_rank *r)
{
    uint64_t seed = r->seed + 9000, count = LARGE / (uint64_t)r->ranks;
    struct zero_coll q = {
        .src_dtype = ZERO_BF16, .dst_dtype = ZERO_BF16, .scale = 1, .count = count};
    struct check_comm c;

    if (check_open(r, &c, LARGE_SLAB)) {
        if (check_can(r, &q))
            check_exact(&c, c.world, r->rank, r->ranks, q, ++seed);
        q.kind = ZERO_REDUCE_SCATTER;
        q.dst_dtype = ZERO_F32;
        q.scale = 0.25f;
        if (check_can(r, &q))
            check_either(&c, c.world, r->rank, r->ranks, q, ++seed);
        q.kind = ZERO_ALL_REDUCE;
        if (check_can(r, &q))
            check_either(&c, c.world, r->rank, r->ranks, q, ++seed);
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}

/* `what`: that is not declared of it; "": the kind. */
static void refused(struct check_comm *c, const struct zero_coll *q, void *stream, const char *what)
{
    int err = c->ops->post(c->world, q, 1, stream);

    want(c->r, err == -ENOTSUP, "%s (kind %u%s%s) is not refused with -ENOTSUP: post gives %s",
         zero_coll_name(q->kind), q->kind, *what ? ", " : "", what,
         check_value(c->r, err));
}

/* Types, reductions and flags outside the masks, of a kind within. */
static void undeclared_sums(struct check_comm *c, struct zero_coll good)
{
    struct check_rank *r = c->r;
    struct zero_coll q;

    if (!has_kind(r, good.kind))
        return;
    for (unsigned t = 0; t < N_PAIRS; t++) {
        q = good;
        q.src_dtype = q.dst_dtype = pairs[t][0];
        q.scale = 1;
        q.src.len = q.src.len / 4 * zero_dtype_bytes(q.src_dtype);
        q.dst.len = q.dst.len / 4 * zero_dtype_bytes(q.src_dtype);
        if (!check_can(r, &q))
            refused(c, &q, NULL, zero_dtype_name(q.src_dtype));
    }
    q = good;
    q.flags = ZERO_COLL_ACCUMULATE;
    if (!check_can(r, &q))
        refused(c, &q, NULL, "ZERO_COLL_ACCUMULATE");
    q = good;
    q.redop = ZERO_MAX, q.scale = 1;
    if (!check_can(r, &q))
        refused(c, &q, NULL, "ZERO_MAX");
}

/* Kinds, reductions, types and flags outside the masks. */
void check_case_undeclared(struct check_rank *r)
{
    struct check_comm c;

    if (check_open(r, &c, SLAB)) {
        for (uint32_t kind = 0; kind <= ZERO_BARRIER + 1; kind++) {
            struct zero_coll q = {.kind = kind, .scale = 1};
            if (!has_kind(r, kind))
                refused(&c, &q, NULL, "");
        }
        undeclared_sums(&c, check_reduce(&c, 8));
        undeclared_sums(&c, check_scatter(&c, 8));
        struct zero_coll q = check_some(&c, 8);
        if (!(r->caps.flags & ZERO_COMM_STREAM))
            refused(&c, &q, &q, "in a stream");
        want(r, !(r->caps.flags & ZERO_COMM_MAP) == !c.ops->map, "%s",
             c.ops->map ? "there is a map(), but ZERO_COMM_MAP is not declared"
                        : "ZERO_COMM_MAP is declared, but there is no map()");
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}
