/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective of the plugins shm and (one rank) self against the plainest C, bit for bit: all
 * types, odd sizes and offsets, in place, accumulating, ranks as threads and as processes, several
 * communicators at once, wire bytes, mapped peers.
 */
#include "comm.h"
#include "comm_values.h"

#define SLAB (UINT64_C(4) << 20)
#define HALF (SLAB / 2)
#define GUARD 64

static struct oob_board *board;
static const char *plugin_name;

static const uint64_t sizes[] = {0, 1, 3, 63, 64, 65, 1000, 4097, 70001};
#define N_SIZES (sizeof sizes / sizeof *sizes)

struct layout {
    uint64_t src, dst, src_bytes, dst_bytes; /* in the slab */
};

/* Where source and destination lie: odd elements into both halves, or in place. */
static struct layout place(const struct zero_coll *c, int rank, int ranks, uint64_t seed)
{
    uint64_t s = zero_dtype_bytes(c->src_dtype), d = zero_dtype_bytes(c->dst_dtype);
    uint64_t n = (uint64_t)ranks * c->count;
    struct layout l = {.src = GUARD + seed % 13 * s, .dst = HALF + GUARD + seed % 11 * d};

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
    uint64_t x[RANKS_MAX] = {0}, at = i, bits;
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

static void fill(struct comm_rank *c, const struct zero_coll *q, const struct layout *l,
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

static void check(struct rank *r, struct comm_rank *c, const struct zero_coll *q,
                  const struct layout *l, uint64_t seed, int rank, int ranks)
{
    uint32_t size = zero_dtype_bytes(q->dst_dtype);

    for (uint64_t i = 0; i < l->dst_bytes / size; i++) {
        uint64_t old = value_bits(ZERO_F32, mix(seed, 55, i));
        uint64_t want_bits = wanted(q, seed, rank, ranks, i, old);
        uint64_t got = value_load(q->dst_dtype, c->memory + l->dst, i);
        if (got != want_bits) {
            want(r, false,
                 "kind %u %s to %s redop %u flags %u count %" PRIu64 " seed %" PRIu64
                 ": element %" PRIu64 " is %" PRIx64 ", want %" PRIx64,
                 q->kind, zero_dtype_name(q->src_dtype), zero_dtype_name(q->dst_dtype), q->redop,
                 q->flags, q->count, seed, i, got, want_bits);
            return;
        }
    }
    if (q->flags & ZERO_COLL_INPLACE)
        return;
    want(r, guards_intact(c->memory, l->dst, l->dst_bytes), "kind %u: wrote outside, seed %" PRIu64,
         q->kind, seed);
    want(r, guards_intact(c->memory, l->src, l->src_bytes), "kind %u: source, seed %" PRIu64,
         q->kind, seed);
    for (uint64_t i = 0; i < l->src_bytes / zero_dtype_bytes(q->src_dtype); i++)
        if (!want(r, value_load(q->src_dtype, c->memory + l->src, i) == sent(q, seed, rank, i),
                  "kind %u: the source changed, seed %" PRIu64, q->kind, seed))
            return;
}

/* Runs one collective of `comm` and checks it; every rank makes the same choices from seed. */
static void try_one(struct rank *r, struct comm_rank *c, struct zero_comm *comm, int rank,
                    int ranks, struct zero_coll q, uint64_t seed)
{
    struct layout l = place(&q, rank, ranks, seed);
    int64_t res;

    if (l.src_bytes > HALF - 512 || l.dst_bytes > HALF - 512)
        return;
    q.src = comm_slice(c, l.src, l.src_bytes);
    q.dst = comm_slice(c, l.dst, l.dst_bytes);
    q.sequence = seed;
    q.user = seed ^ 0xabcdef;
    fill(c, &q, &l, seed, rank);
    res = comm_run(c, comm, &q);
    if (want(r, res == (int64_t)l.dst_bytes, "kind %u count %" PRIu64 ": result %" PRId64 ": %s",
             q.kind, q.count, res, zero_last_error()))
        check(r, c, &q, &l, seed, rank, ranks);
}

static void try_reductions(struct rank *r, struct comm_rank *c, uint64_t count, uint64_t *seed)
{
    static const uint32_t types[][2] = {
        {ZERO_F32, ZERO_F32}, {ZERO_BF16, ZERO_BF16}, {ZERO_F16, ZERO_F16}, {ZERO_BF16, ZERO_F32},
        {ZERO_F16, ZERO_F32}, {ZERO_F32, ZERO_BF16},  {ZERO_F32, ZERO_F16}, {ZERO_BF16, ZERO_F16},
        {ZERO_F64, ZERO_F64}, {ZERO_I32, ZERO_I32},   {ZERO_I64, ZERO_I64}, {ZERO_U8, ZERO_U8},
    };

    for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
        for (unsigned k = 0; k < 16; k++) {
            bool floats = t < 8, sum = !(k & 2), in_place = k & 4, accumulate = k & 8;
            struct zero_coll q = {.kind = k & 1 ? ZERO_ALL_REDUCE : ZERO_REDUCE_SCATTER,
                                  .src_dtype = types[t][0],
                                  .dst_dtype = types[t][1],
                                  .redop = sum ? ZERO_SUM : ZERO_MAX,
                                  .scale = sum && (floats || t == 8) ? 1.0f / 3 : 1,
                                  .count = count};
            if ((in_place && (types[t][0] != types[t][1] || accumulate)) ||
                (accumulate && (!sum || !floats || types[t][1] != ZERO_F32)))
                continue;
            q.flags = (in_place ? ZERO_COLL_INPLACE : 0) | (accumulate ? ZERO_COLL_ACCUMULATE : 0);
            try_one(r, c, c->world, r->rank, r->ranks, q, ++*seed);
        }
}

static void try_movements(struct rank *r, struct comm_rank *c, uint64_t count, uint64_t *seed)
{
    static const uint32_t types[] = {ZERO_F32, ZERO_BF16, ZERO_U8, ZERO_I64};

    for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
        struct zero_coll q = {
            .src_dtype = types[t], .dst_dtype = types[t], .scale = 1, .count = count};
        q.kind = ZERO_ALL_GATHER;
        try_one(r, c, c->world, r->rank, r->ranks, q, ++*seed);
        q.flags = ZERO_COLL_INPLACE;
        try_one(r, c, c->world, r->rank, r->ranks, q, ++*seed);
        q.flags = 0;
        q.kind = ZERO_BROADCAST;
        for (q.root = 0; q.root<r->ranks; q.root += r->ranks> 3 ? 3 : 1)
            try_one(r, c, c->world, r->rank, r->ranks, q, ++*seed);
    }
    want(r, comm_barrier(c, c->world) == 0, "barrier: %s", zero_last_error());
}

static void exactness(struct rank *r)
{
    struct comm_rank c;
    uint64_t seed = 1000;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    for (unsigned i = 0; i < N_SIZES; i++) {
        try_movements(r, &c, sizes[i], &seed);
        if (sizes[i] < 10000 || r->ranks <= 3)
            try_reductions(r, &c, sizes[i], &seed);
    }
    comm_end(r, &c);
}

/* Bytes that peers read from this rank, in closed form. */
static void wire(struct rank *r)
{
    uint64_t n = 64 * 100, others = (uint64_t)r->ranks - 1, before, after;
    struct zero_coll q = {.src_dtype = ZERO_BF16, .dst_dtype = ZERO_BF16, .scale = 1};
    struct comm_rank c;
    uint64_t expected = 0;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    q.count = n;
    q.kind = ZERO_ALL_GATHER;
    want(r, !c.ops->wire_bytes(c.world, &before) && before == 0, "starts at 0");
    try_one(r, &c, c.world, r->rank, r->ranks, q, 1);
    expected += n * 2 * others;
    q.kind = ZERO_REDUCE_SCATTER;
    try_one(r, &c, c.world, r->rank, r->ranks, q, 2);
    expected += n * 2 * others;
    q.kind = ZERO_ALL_REDUCE;
    q.dst_dtype = ZERO_F32;
    q.count = n * (uint64_t)r->ranks;
    try_one(r, &c, c.world, r->rank, r->ranks, q, 3);
    expected += n * 2 * others + n * 4 * others;
    q.dst_dtype = ZERO_BF16;
    q.kind = ZERO_BROADCAST;
    q.root = r->ranks - 1;
    try_one(r, &c, c.world, r->rank, r->ranks, q, 4);
    expected += r->rank == q.root ? q.count * 2 * others : 0;
    want(r, comm_barrier(&c, c.world) == 0, "barrier");
    want(r, !c.ops->wire_bytes(c.world, &after) && after == expected,
         "wire bytes %" PRIu64 ", want %" PRIu64, after, expected);
    comm_end(r, &c);
}

struct lane {
    struct zero_comm *comm;
    int rank, ranks, color;
    unsigned posted, completed;
};

/* The place of this rank in its part, by key. */
static void split(struct rank *r, struct comm_rank *c, struct zero_comm *parent, int color,
                  int n_colors, bool backwards, struct lane *l)
{
    int key = backwards ? -r->rank : 0, n = 0, mine = 0;

    *l = (struct lane){.color = color};
    for (int p = 0; p < r->ranks; p++)
        if (p % n_colors == r->rank % n_colors) {
            n++;
            mine += backwards ? p > r->rank : p < r->rank;
        }
    l->rank = mine;
    l->ranks = n;
    want(r, !c->ops->split(c->ctx, parent, color, key, &l->comm), "split: %s", zero_last_error());
}

/*
 * Three communicators with many collectives in flight each, posted in an order of every rank's own:
 * each gathers a counter that tells who sent what and when.
 */
#define ROUNDS 300u
static void concurrent(struct rank *r)
{
    struct comm_rank c;
    struct lane lanes[3];
    uint64_t rest = 3 * ROUNDS, z = 17 + (uint64_t)r->rank;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    lanes[0] = (struct lane){.comm = c.world, .rank = r->rank, .ranks = r->ranks};
    split(r, &c, NULL, r->rank % 2, 2, true, &lanes[1]);
    split(r, &c, c.world, r->rank % 3, 3, false, &lanes[2]);
    for (int64_t until = now_ms() + 20000; rest && r->bad == 0;) {
        struct lane *l = &lanes[(z = mix(z, 1, 1)) % 3];
        struct zero_cqe cqes[8];
        uint64_t which = (uint64_t)(l - lanes);
        if (l->posted < ROUNDS) {
            /* Slots: [lane][collective % 64][8 sources, then 8 x 8 destinations]. */
            uint64_t at = (which * 64 + l->posted % 64) * 72 * 8;
            struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                                  .src_dtype = ZERO_I64,
                                  .dst_dtype = ZERO_I64,
                                  .scale = 1,
                                  .count = 1 + l->posted % 8,
                                  .sequence = l->posted,
                                  .group = (uint32_t)which,
                                  .user = which << 32 | l->posted};
            q.src = comm_slice(&c, at, q.count * 8);
            q.dst = comm_slice(&c, at + 64, q.count * 8 * (uint64_t)l->ranks);
            if (l->posted - l->completed < 64) {
                for (uint64_t i = 0; i < q.count; i++)
                    value_store(ZERO_I64, c.memory + at, i,
                                mix(which, (uint64_t)l->rank, l->posted) + i);
                int err = c.ops->post(l->comm, &q, 1, NULL);
                want(r, !err, "post: %d %s", err, zero_last_error());
                l->posted++;
            }
        }
        int n = c.ops->progress(c.ctx, cqes, 8, z & 0xf00 ? 0 : 1000000);
        want(r, n >= 0 && now_ms() < until, "progress: %d %s", n, zero_last_error());
        for (int i = 0; i < n; i++, rest--) {
            l = &lanes[cqes[i].user >> 32];
            which = (uint64_t)(l - lanes);
            uint64_t k = cqes[i].user & 0xffffffff, at = (which * 64 + k % 64) * 72 * 8 + 64;
            want(r, k == l->completed++, "completions of a communicator come in order");
            want(r, cqes[i].res >= 0, "result %" PRId64, cqes[i].res);
            for (uint64_t e = 0; e < (1 + k % 8) * (uint64_t)l->ranks; e++)
                want(r,
                     value_load(ZERO_I64, c.memory + at, e) ==
                         mix(which, e / (1 + k % 8), k) + e % (1 + k % 8),
                     "lane %" PRIu64 " collective %" PRIu64 " element %" PRIu64, which, k, e);
        }
    }

    want(r, comm_barrier(&c, c.world) == 0, "barrier");
    for (int i = 1; i < 3; i++)
        want(r, !c.ops->comm_close(lanes[i].comm), "close");
    comm_end(r, &c);
}

/* Ranks with color -1 take part and get nothing; a communicator may be split again. */
static void leave_out(struct rank *r)
{
    struct zero_comm *comm = (struct zero_comm *)1, *inner;
    struct comm_rank c;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    want(r, !c.ops->split(c.ctx, NULL, r->rank == 0 ? -1 : 5, 0, &comm), "split: %s",
         zero_last_error());
    want(r, (comm == NULL) == (r->rank == 0), "rank 0 gets none");
    if (comm) {
        struct zero_coll q = {.kind = ZERO_ALL_REDUCE,
                              .src_dtype = ZERO_F32,
                              .dst_dtype = ZERO_F32,
                              .scale = 1,
                              .count = 129};
        try_one(r, &c, comm, r->rank - 1, r->ranks - 1, q, 5);
        want(r, !c.ops->split(c.ctx, comm, 0, -r->rank, &inner), "split again: %s",
             zero_last_error());
        try_one(r, &c, inner, r->ranks - 1 - r->rank, r->ranks - 1, q, 6);
    }
    want(r, comm_barrier(&c, c.world) == 0, "barrier");
    comm_end(r, &c);
}

/* A batch is one post; a full ring says so and accepts more later. */
static void batches(struct rank *r)
{
    struct zero_comm_caps caps = {.size = sizeof caps};
    struct zero_coll q[8];
    struct zero_cqe cqes[64];
    struct comm_rank c;
    uint32_t posted = 0;
    int n, err = 0;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    want(r, !c.ops->probe(zero__loader_host(c.loader), &caps), "probe");
    for (int i = 0; i < 8; i++)
        q[i] = (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1, .user = (uint64_t)i};
    while (posted < 1000 && !(err = c.ops->post(c.world, q, 8, NULL)))
        posted += 8;
    want(r, err == -EAGAIN && posted == caps.max_inflight / 8 * 8, "full after %u: %d", posted,
         err);
    for (uint32_t got = 0; got < posted; got += (uint32_t)n) {
        n = c.ops->progress(c.ctx, cqes, 5, WAIT_NS);
        if (!want(r, n > 0 && n <= 5, "progress: %d", n))
            break;
        for (int i = 0; i < n; i++)
            want(r, cqes[i].user == (got + (uint32_t)i) % 8, "in order");
    }
    want(r, comm_barrier(&c, c.world) == 0, "and empty again");
    comm_end(r, &c);
}

/* Rank 0 sleeps in the first of two collectives that another rank posts as one batch. */
static void batch_wakes(struct rank *r)
{
    struct zero_coll q[2];
    struct comm_rank c;
    uint64_t user;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    for (int i = 0; i < 2; i++)
        q[i] = (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1, .user = (uint64_t)i};
    want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    if (r->rank) {
        sleep_ms(100);
        want(r, !c.ops->post(c.world, q, 2, NULL), "a batch: %s", zero_last_error());
    } else {
        struct zero_cqe cqe;
        want(r, !c.ops->post(c.world, q, 1, NULL), "the first: %s", zero_last_error());
        want(r, c.ops->progress(c.ctx, &cqe, 1, WAIT_NS) == 1, "nobody rings for the first");
        want(r, !c.ops->post(c.world, q + 1, 1, NULL), "the second: %s", zero_last_error());
    }
    for (uint64_t i = r->rank == 0; i < 2; i++)
        want(r, comm_wait(&c, &user) == 0 && user == i, "number %" PRIu64, i);
    want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    comm_end(r, &c);
}

/* Peers' pages side by side, as often as one likes. */
static void mapped(struct rank *r)
{
    uint64_t page = 65536;
    struct comm_rank c;
    void *base, *again;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    if (c.ops->map) {
        memset(c.memory + page, r->rank + 1, page);
        if (want(r, !c.ops->map(c.ctx, c.mr, page, page, &base), "map: %s", zero_last_error())) {
            want(r, comm_barrier(&c, c.world) == 0, "barrier");
            for (int p = 0; p < r->ranks; p++)
                for (uint64_t i = 0; i < page; i += 777)
                    want(r, ((char *)base)[(uint64_t)p * page + i] == p + 1, "rank %d's part", p);
            want(r, comm_barrier(&c, c.world) == 0, "barrier");
            want(r, !c.ops->map(c.ctx, c.mr, page + page / 2, page, &again), "a second map: %s",
                 zero_last_error());
            for (int p = 0; p < r->ranks; p++)
                want(r, ((char *)again)[(uint64_t)p * page] == p + 1, "rank %d's second half", p);
            want(r, ((char *)base)[0] == 1, "the first map is still there");
        }
        want(r, c.ops->map(c.ctx, c.mr, 1, page, &base) == -EINVAL, "half pages are refused");
    }
    comm_end(r, &c);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*fn)(struct rank *);
        int counts[5];
    } tests[] = {
        {"every collective is exact", exactness, {1, 2, 3, 4, 8}},
        {"wire bytes", wire, {1, 2, 3, 4}},
        {"communicators are independent", concurrent, {2, 3, 8}},
        {"some ranks stay out", leave_out, {2, 3, 4}},
        {"batches and a full ring", batches, {1, 2, 4}},
        {"a batch wakes who waits for its first", batch_wakes, {2, 3}},
        {"mapped peers", mapped, {1, 2, 3}},
    };

    board = shared_memory(sizeof *board);
    plugin_name = "self";
    for (unsigned t = 0; t < sizeof tests / sizeof *tests; t++)
        if (tests[t].counts[0] == 1) {
            memset(board, 0, sizeof *board);
            ranks_good(ranks_run(1, AS_THREADS, tests[t].fn, NULL), 1, "self: %s", tests[t].name);
        }
    plugin_name = "shm";
    for (unsigned t = 0; t < sizeof tests / sizeof *tests; t++)
        for (unsigned i = 0; i < 5 && tests[t].counts[i]; i++)
            for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
                int n = tests[t].counts[i];
                if (how == AS_PROCESSES && n > 4 && t == 0)
                    continue; /* the same code with more to compute */
                memset(board, 0, sizeof *board);
                ranks_good(ranks_run(n, how, tests[t].fn, NULL), n, "%s: %d %s", tests[t].name, n,
                           ranks_how_name[how]);
            }
    done();
}
