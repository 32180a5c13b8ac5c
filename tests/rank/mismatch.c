/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that post different collectives, at random: of another kind, type, count, reduction, root,
 * group, number, scale, or in another order. Every rank gets -EPROTO, and its sentence tells what
 * both sides posted; other communicators go on, and what they compute is right.
 *
 *     mismatch          120 with each transport (make check)
 *     mismatch N        N with each (make check-faults: a thousand)
 */
#include "comm.h"

#define SLAB (UINT64_C(1) << 20)
#define BRIEF 120

static const char *plugin;
static uint64_t first, last; /* numbers of mismatches */

enum difference {
    KIND,
    SRC,
    DST,
    COUNT,
    ROOT,
    REDOP,
    FLAGS,
    GROUP,
    EPOCH,
    SEQUENCE,
    SCALE,
    ORDER,
    N_DIFFERENT
};

static const char *const kinds[] = {"all_gather", "reduce_scatter", "all_reduce", "broadcast",
                                    "barrier"};
/* In the order in which they are looked at; an order shows as one of them. */
static const char *const fields[] = {"the kind",
                                     "the source type",
                                     "the destination type",
                                     "count",
                                     "root",
                                     "the reduction",
                                     "flags",
                                     "the group",
                                     "the epoch",
                                     "the sequence",
                                     "the scale"};

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

/* ---- Collectives at random ------------------------------------------------------------------- */

#define N_FLOATS 8
static const uint32_t pairs[][2] = {
    {ZERO_F32, ZERO_F32}, {ZERO_BF16, ZERO_BF16}, {ZERO_F16, ZERO_F16}, {ZERO_BF16, ZERO_F32},
    {ZERO_F16, ZERO_F32}, {ZERO_F32, ZERO_BF16},  {ZERO_F32, ZERO_F16}, {ZERO_BF16, ZERO_F16},
    {ZERO_F64, ZERO_F64}, {ZERO_I32, ZERO_I32},   {ZERO_I64, ZERO_I64}, {ZERO_U8, ZERO_U8},
};

static bool reduces(uint32_t kind)
{
    return kind == ZERO_REDUCE_SCATTER || kind == ZERO_ALL_REDUCE;
}

/* With new types, reduction, scale and flags; its kind, count and numbers stay. */
static void draw_types(uint64_t *state, struct zero_coll *q)
{
    uint32_t pair = draw(state, sizeof pairs / sizeof *pairs);
    bool sum = draw(state, 3) > 0;

    q->src_dtype = pairs[pair][reduces(q->kind) ? 0 : 1];
    q->dst_dtype = pairs[pair][1];
    q->redop = reduces(q->kind) && !sum ? ZERO_MAX : ZERO_SUM;
    q->scale = reduces(q->kind) && sum && pair <= N_FLOATS ? 1.0f / (float)(1 + draw(state, 4)) : 1;
    q->flags = 0;
    if (q->kind != ZERO_BROADCAST && q->src_dtype == q->dst_dtype && draw(state, 3) == 0)
        q->flags = ZERO_COLL_INPLACE;
    else if (reduces(q->kind) && sum && pair < N_FLOATS && q->dst_dtype == ZERO_F32 &&
             draw(state, 3) == 0)
        q->flags = ZERO_COLL_ACCUMULATE;
}

static struct zero_coll draw_coll(uint64_t *state, int ranks)
{
    struct zero_coll q = {.kind = draw(state, 5), .scale = 1, .user = 5};

    q.group = draw(state, 9);
    q.epoch = draw(state, 9);
    q.sequence = draw(state, 1000);
    if (q.kind == ZERO_BARRIER)
        return q;
    q.count = 1 + draw(state, 200);
    draw_types(state, &q);
    if (q.kind == ZERO_BROADCAST)
        q.root = (int32_t)draw(state, (uint32_t)ranks);
    return q;
}

/* Which field tells them apart, -1: none. */
static int apart(const struct zero_coll *a, const struct zero_coll *b)
{
    const bool differs[] = {
        a->kind != b->kind,         a->src_dtype != b->src_dtype, a->dst_dtype != b->dst_dtype,
        a->count != b->count,       a->root != b->root,           a->redop != b->redop,
        a->flags != b->flags,       a->group != b->group,         a->epoch != b->epoch,
        a->sequence != b->sequence, a->scale != b->scale};

    for (int i = 0; i < ORDER; i++)
        if (differs[i])
            return i;
    return -1;
}

/* b: a with that difference, and perhaps lesser ones; false: a has nothing of the sort. */
static bool alter(uint64_t *state, int ranks, enum difference what, const struct zero_coll *a,
                  struct zero_coll *b)
{
    *b = *a;
    if (what == KIND) {
        *b = draw_coll(state, ranks);
    } else if (what == GROUP) {
        b->group += 1 + draw(state, 5);
    } else if (what == EPOCH) {
        b->epoch += 1 + draw(state, 5);
    } else if (what == SEQUENCE) {
        b->sequence += 1 + draw(state, 5);
    } else if (a->kind == ZERO_BARRIER) {
        return false;
    } else if (what == COUNT) {
        b->count += 1 + draw(state, 9);
    } else if (what == ROOT) {
        b->root = a->kind == ZERO_BROADCAST ? (int32_t)draw(state, (uint32_t)ranks) : 0;
    } else {
        draw_types(state, b);
    }
    return apart(a, b) == (int)what;
}

/* What the ranks post, and what one of them posts instead; for ORDER, two in the other order. */
static enum difference draw_pair(uint64_t number, int ranks, struct zero_coll ours[2],
                                 struct zero_coll other[2])
{
    uint64_t state = number * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)ranks;
    enum difference what = (enum difference)(number % N_DIFFERENT);

    draw(&state, 2);
    for (;;) {
        ours[0] = draw_coll(&state, ranks);
        ours[1] = draw_coll(&state, ranks);
        if (what == ORDER && apart(&ours[0], &ours[1]) < 0)
            continue;
        other[0] = ours[1];
        other[1] = ours[0];
        if (what == ORDER || alter(&state, ranks, what, &ours[0], &other[0]))
            return what;
    }
}

/* Where it lies on this rank. */
static void place(struct comm_rank *c, int rank, int ranks, struct zero_coll *q)
{
    uint64_t all = (uint64_t)ranks;
    uint64_t src = q->count * zero_dtype_bytes(q->src_dtype);
    uint64_t dst = q->count * zero_dtype_bytes(q->dst_dtype), at = SLAB / 2;

    if (q->kind == ZERO_BARRIER)
        return;
    if (q->kind == ZERO_BROADCAST) {
        q->src = rank == q->root ? comm_slice(c, 0, src) : (struct zero_slice){0};
        q->dst = rank == q->root ? (struct zero_slice){0} : comm_slice(c, at, dst);
        return;
    }
    src *= q->kind == ZERO_REDUCE_SCATTER ? all : 1;
    dst *= q->kind == ZERO_ALL_GATHER ? all : 1;
    q->src = comm_slice(c, 0, src);
    q->dst = comm_slice(c, at, dst);
    if (!(q->flags & ZERO_COLL_INPLACE))
        return;
    if (q->kind == ZERO_ALL_GATHER)
        q->src.off = at + (uint64_t)rank * src;
    else
        q->dst.off = q->kind == ZERO_REDUCE_SCATTER ? (uint64_t)rank * dst : 0;
}

/* ---- What the ranks hear --------------------------------------------------------------------- */

static void value_of(const struct zero_coll *q, int field, char *text, size_t room)
{
    const uint64_t numbers[] = {0,        0,        0,        q->count, (uint64_t)q->root,
                                q->redop, q->flags, q->group, q->epoch, q->sequence};

    if (field == KIND)
        snprintf(text, room, "%s", kinds[q->kind]);
    else if (field == SRC || field == DST)
        snprintf(text, room, "%s", zero_dtype_name(field == SRC ? q->src_dtype : q->dst_dtype));
    else if (field == SCALE)
        snprintf(text, room, "%.9g", (double)q->scale);
    else
        snprintf(text, room, "%" PRIu64, numbers[field]);
}

/* The sentence must set the value of one of the others against the victim's. */
static bool tells(const char *text, int ranks, int victim, const struct zero_coll *ours,
                  const struct zero_coll *other)
{
    int field = apart(ours, other);
    char a[40], b[40], words[200];

    value_of(ours, field, a, sizeof a);
    value_of(other, field, b, sizeof b);
    for (int p = 0; p < ranks; p++) {
        if (p == victim)
            continue;
        if (p < victim)
            snprintf(words, sizeof words, "%s is %s on rank %d, %s on rank %d", fields[field], a, p,
                     b, victim);
        else
            snprintf(words, sizeof words, "%s is %s on rank %d, %s on rank %d", fields[field], b,
                     victim, a, p);
        if (strstr(text, words))
            return !strstr(text, "barrier of"); /* it has no elements */
    }
    return false;
}

static void go_apart(struct rank *r, struct comm_rank *c, uint64_t number)
{
    int victim = (int)(number / N_DIFFERENT % (uint64_t)r->ranks);
    struct zero_coll ours[2], other[2];
    enum difference what = draw_pair(number, r->ranks, ours, other);
    const struct zero_coll *mine = r->rank == victim ? other : ours;
    struct zero_comm *comm;
    int64_t res = 0;

    if (!want(r, !c->ops->split(c->ctx, NULL, 0, 0, &comm), "split: %s", zero_last_error()))
        return;
    for (int i = 0; i < (what == ORDER ? 2 : 1) && res >= 0; i++) {
        struct zero_coll q = mine[i];
        place(c, r->rank, r->ranks, &q);
        res = comm_run(c, comm, &q);
    }
    want(r, res == -EPROTO, "number %" PRIu64 ": result %" PRId64 ": %s", number, res,
         zero_last_error());
    want(r, c->ops->error(comm) == -EPROTO, "number %" PRIu64 ": not sticky", number);
    r->value += want(r, tells(zero_last_error(), r->ranks, victim, &ours[0], &other[0]),
                     "number %" PRIu64 " by rank %d (%s): \"%s\"", number, victim,
                     what == ORDER ? "order" : fields[what], zero_last_error());
    want(r, comm_barrier(c, c->world) == 0, "the world after number %" PRIu64 ": %s", number,
         zero_last_error());
    want(r, !c->ops->comm_close(comm), "close");
}

/* Sums of small whole numbers, on the communicator that nobody has left. */
static void sum_is_right(struct rank *r, struct comm_rank *c)
{
    struct zero_coll q = {.kind = ZERO_ALL_REDUCE,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .count = 100,
                          .src = comm_slice(c, 0, 400),
                          .dst = comm_slice(c, SLAB / 2, 400)};
    float *x = (float *)(void *)c->memory, *y = (float *)(void *)(c->memory + SLAB / 2);
    int ranks = r->ranks;

    for (int i = 0; i < 100; i++)
        x[i] = (float)(i + r->rank);
    want(r, comm_run(c, c->world, &q) == 400, "a sum: %s", zero_last_error());
    for (int i = 0; i < 100; i++)
        want(r, y[i] == (float)(i * ranks + ranks * (ranks - 1) / 2), "a wrong sum");
}

static void part(struct rank *r)
{
    struct comm_rank c = {0};

    if (comm_open(r, &c, plugin, SLAB, NULL, 0))
        for (uint64_t number = first; number < last && !r->bad; number++) {
            go_apart(r, &c, number);
            if (number % 16 == 0)
                sum_is_right(r, &c);
        }
    comm_end(r, &c);
}

static void try_plugin(const char *name, unsigned n, enum ranks_how how)
{
    int64_t begin = now_ms(), told = 0;
    bool good = true;

    plugin = name;
    for (int ranks = 2; ranks <= 4; ranks++) {
        const struct rank *all;
        first = n * (uint64_t)(ranks - 2) / 3;
        last = n * (uint64_t)(ranks - 1) / 3;
        all = comm_ranks(ranks, how, part, NULL);
        for (int p = 0; p < ranks; p++)
            good &= (uint64_t)all[p].value == last - first;
        told += all[0].value;
        ranks_good(all, ranks, "%s, %" PRIu64 " mismatches: %d %s", name, last - first, ranks,
                   ranks_how_name[how]);
    }
    ok(good, "%s: %" PRId64 " of %u mismatches were told with both values, on every rank", name,
       told, n);
    diag("%d ms", (int)(now_ms() - begin));
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"shm", "ucx", "ofi"};
    unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : BRIEF;
    const char *build = getenv("ZERO_TEST_BUILD");

#ifdef __SANITIZE_THREAD__
    try_plugin("shm", n, AS_THREADS); /* it cannot see into the libraries of the others */
    done();
#endif
    for (int i = 0; i < 3; i++) {
        char file[4096], what[64];
        snprintf(what, sizeof what, "mismatches over %s", names[i]);
        snprintf(file, sizeof file, "%s/.libs/zero-comm-%s.so", build ? build : ".", names[i]);
        if (access(file, R_OK) == 0)
            try_plugin(names[i], n, AS_PROCESSES);
        else
            skip(what, "the plugin was not built");
    }
    done();
}
