/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a comm plugin does when ranks go apart, abort, die, or say garbage: an error that names the
 * ranks, never wrong numbers, never a hang, never a crash of the others, and nothing left behind.
 */
#include "comm.h"

#include <dirent.h>

#include "../../plugins/shm/shm.h" /* the garbage test writes where a broken rank could */
#include "comm_values.h"

#define SLAB (UINT64_C(1) << 20)

static struct oob_board *board;
static const char *plugin_name = "shm";

static struct zero_coll gather_of(struct comm_rank *c, uint64_t count, int ranks)
{
    struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .count = count};
    q.src = comm_slice(c, 0, count * 4);
    q.dst = comm_slice(c, SLAB / 2, count * 4 * (uint64_t)ranks);
    return q;
}

static struct zero_coll reduce_of(struct comm_rank *c, uint64_t count)
{
    struct zero_coll q = {.kind = ZERO_ALL_REDUCE,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 0.5f,
                          .count = count,
                          .group = 3,
                          .epoch = 4,
                          .sequence = 5};
    q.src = comm_slice(c, 0, count * 4);
    q.dst = comm_slice(c, SLAB / 2, count * 4);
    return q;
}

/* ---- Ranks that go apart ----------------------------------------------------------------------
 */

enum difference {
    KIND,
    COUNT,
    TYPE,
    REDOP,
    FLAGS,
    SCALE,
    GROUP,
    EPOCH,
    SEQUENCE,
    ROOT,
    N_DIFFERENT
};
static const char *const said[N_DIFFERENT] = {"the kind is all_reduce on",
                                              "count is 64 on",
                                              "the source type is fp32 on",
                                              "the reduction is 0 on",
                                              "flags is 0 on",
                                              "the scale is 0.5 on",
                                              "the group is 3 on",
                                              "the epoch is 4 on",
                                              "the sequence is 5 on",
                                              "root is 0 on"};

/* What this rank posts; the last rank differs. */
static struct zero_coll different(struct comm_rank *c, enum difference what, bool other)
{
    struct zero_coll q = reduce_of(c, 64);

    if (what == ROOT) {
        q = (struct zero_coll){.kind = ZERO_BROADCAST,
                               .src_dtype = ZERO_F32,
                               .dst_dtype = ZERO_F32,
                               .scale = 1,
                               .count = 64};
        q.root = other ? 1 : 0;
        if (c->end.rank == q.root)
            q.src = comm_slice(c, 0, 256);
        else
            q.dst = comm_slice(c, SLAB / 2, 256);
        return q;
    }
    if (!other)
        return q;
    if (what == KIND)
        return gather_of(c, 64, c->end.ranks);
    if (what == COUNT)
        q = reduce_of(c, 65);
    if (what == TYPE)
        q.src_dtype = ZERO_BF16, q.src.len /= 2;
    if (what == REDOP)
        q.redop = ZERO_MAX, q.scale = 1;
    if (what == FLAGS)
        q.flags = ZERO_COLL_INPLACE, q.src = q.dst;
    if (what == SCALE)
        q.scale = 0.25f;
    q.group += what == GROUP;
    q.epoch += what == EPOCH;
    q.sequence += what == SEQUENCE;
    return q;
}

static void mismatch(struct rank *r)
{
    struct comm_rank c;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    for (enum difference what = 0; what < N_DIFFERENT; what++) {
        bool other = r->rank == r->ranks - 1;
        struct zero_coll q = different(&c, what, other);
        struct zero_comm *comm;
        char name[32];
        if (!want(r, !c.ops->split(c.ctx, NULL, 0, 0, &comm), "split: %s", zero_last_error()))
            break;
        int64_t res = comm_run(&c, comm, &q);
        want(r, res == -EPROTO, "difference %d: result %" PRId64, (int)what, res);
        want(r, c.ops->error(comm) == -EPROTO, "difference %d: sticky", (int)what);
        snprintf(name, sizeof name, "rank %d", r->ranks - 1);
        want(r, strstr(zero_last_error(), name), "difference %d: names %s: %s", (int)what, name,
             zero_last_error());
        want(r, strstr(zero_last_error(), said[what]), "difference %d: \"%s\" lacks \"%s\"",
             (int)what, zero_last_error(), said[what]);
        want(r, c.ops->post(comm, &q, 1, NULL) == -EPROTO, "difference %d: posts fail", (int)what);
        want(r, comm_barrier(&c, c.world) == 0, "another communicator still works");
        want(r, !c.ops->comm_close(comm), "close");
    }
    comm_end(r, &c);
}

/* Ranks that call different things outside of collectives. */
static void calls_apart(struct rank *r)
{
    struct zero_comm *comm;
    struct comm_rank c;
    struct zero_mr *mr;
    void *base;
    int err;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    want(r, !c.ops->alloc(c.ctx, 4096, ZERO_MEM_HOST, &base, &mr), "alloc");
    err = r->rank ? c.ops->split(c.ctx, NULL, 0, 0, &comm) : c.ops->exchange(c.ctx, mr);
    want(r, err == -EPROTO, "result %d", err);
    want(r, strstr(zero_last_error(), "exchange") && strstr(zero_last_error(), "split"),
         "both calls are named: %s", zero_last_error());
    comm_end(r, &c);
}

/* ---- Descriptors that are refused --------------------------------------------------------------
 */

static void refuse(struct rank *r, struct comm_rank *c, struct zero_coll q, int err,
                   const char *what)
{
    int got = c->ops->post(c->world, &q, 1, NULL);
    want(r, got == err, "%s: %d, want %d", what, got, err);
    want(r, strlen(zero_last_error()) > 10, "%s: a reason", what);
}

static void refusals(struct rank *r)
{
    struct comm_rank c;
    struct zero_coll q, good;
    struct zero_mr *mr, *part;
    static char own[4096];
    void *base;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    good = reduce_of(&c, 64);
    q = good, q.kind = 77, refuse(r, &c, q, -ENOTSUP, "unknown kind");
    q = good, q.flags = 1u << 9, refuse(r, &c, q, -ENOTSUP, "unknown flag");
    q = good, q.reserved[1] = 1, refuse(r, &c, q, -EINVAL, "reserved field");
    q = good, q.src_dtype = 99, refuse(r, &c, q, -EINVAL, "unknown type");
    q = good, q.src_dtype = ZERO_I32, refuse(r, &c, q, -EINVAL, "int to float");
    q = good, q.redop = 9, refuse(r, &c, q, -ENOTSUP, "unknown reduction");
    q = good, q.redop = ZERO_MAX, refuse(r, &c, q, -EINVAL, "scaled maximum");
    q = good, q.root = 1, refuse(r, &c, q, -EINVAL, "root without broadcast");
    q = good, q.src.len--, refuse(r, &c, q, -EINVAL, "short source");
    q = good, q.dst.len++, refuse(r, &c, q, -EINVAL, "long destination");
    q = good, q.dst.off = 16, refuse(r, &c, q, -EINVAL, "overlap");
    q = good, q.src.off = 2, refuse(r, &c, q, -EINVAL, "half an element");
    q = good, q.src.off = SLAB, refuse(r, &c, q, -ERANGE, "behind the region");
    q = good, q.src.off = UINT64_MAX - 3, refuse(r, &c, q, -ERANGE, "an offset that wraps");
    q = good, q.count = UINT64_MAX / 2, refuse(r, &c, q, -EOVERFLOW, "a count that wraps");
    q = good, q.src.mr = NULL, refuse(r, &c, q, -EINVAL, "no memory");
    q = good, q.flags = ZERO_COLL_INPLACE, refuse(r, &c, q, -EINVAL, "in place, but elsewhere");
    q = good, q.flags = ZERO_COLL_ACCUMULATE, q.dst_dtype = ZERO_BF16, q.dst.len /= 2;
    refuse(r, &c, q, -EINVAL, "accumulating bf16");
    q = gather_of(&c, 8, r->ranks), q.scale = 2, refuse(r, &c, q, -EINVAL, "scaled gather");
    q = (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1, .count = 1};
    refuse(r, &c, q, -EINVAL, "barrier with data");
    want(r, c.ops->post(c.world, &good, 1, own) == -ENOTSUP, "a stream");

    want(r, c.ops->reg(c.ctx, own, sizeof own, ZERO_MEM_HOST, &mr) == -ENOTSUP, "foreign memory");
    want(r, c.ops->reg(c.ctx, c.memory, SLAB + 4096, ZERO_MEM_HOST, &mr) == -ENOTSUP, "too long");
    want(r, c.ops->alloc(c.ctx, UINT64_C(1) << 60, ZERO_MEM_HOST, &base, &mr) == -ENOMEM,
         "too much");
    want(r, strstr(zero_last_error(), " are left "), "and how much there is: %s", zero_last_error());
    want(r, c.ops->alloc(c.ctx, 4096, ZERO_MEM_CUDA, &base, &mr) == -ENOTSUP, "memory of a GPU");
    want(r, c.ops->exchange(c.ctx, c.mr) == -EINVAL, "exchanged twice");
    want(r, !c.ops->reg(c.ctx, c.memory + 4096, 8192, ZERO_MEM_HOST, &part), "part of a slab");
    q = good, q.src = (struct zero_slice){part, 0, 256};
    refuse(r, &c, q, -EINVAL, "before its exchange");
    want(r, !c.ops->exchange(c.ctx, part), "exchange: %s", zero_last_error());
    for (uint64_t i = 0; i < 64; i++)
        ((float *)(c.memory + 4096))[i] = (float)(r->rank + 1);
    want(r, comm_run(&c, c.world, &q) == 256, "a part works: %s", zero_last_error());
    want(r, *(float *)(c.memory + SLAB / 2) == (float)(r->ranks * (r->ranks + 1)) / 4,
         "and is right");
    want(r, !c.ops->unreg(c.ctx, part), "unreg");
    want(r, comm_run(&c, c.world, &good) == 256, "and still so after all this");
    comm_end(r, &c);
}

/* ---- Waiting ----------------------------------------------------------------------------------
 */

struct call_later {
    struct comm_rank *c;
    int ms;
    int (*fn)(struct zero_comm_ctx *ctx);
};

static void *call_thread(void *arg)
{
    struct call_later *l = arg;
    sleep_ms(l->ms);
    l->fn(l->c->ctx);
    return NULL;
}

static void wakes(struct rank *r)
{
    struct zero_cqe cqe;
    struct comm_rank c;
    pthread_t thread;
    int64_t start;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    start = now_ms();
    want(r, c.ops->progress(c.ctx, &cqe, 1, 30000000) == 0, "nothing to wait for");
    want(r, now_ms() - start >= 25, "it waits its time");
    want(r, c.ops->progress(c.ctx, &cqe, 1, 0) == 0, "or not at all");
    want(r, !c.ops->wake(c.ctx), "wake before");
    want(r, c.ops->progress(c.ctx, &cqe, 1, WAIT_NS) == 0, "returns at once");
    struct call_later later = {&c, 50, c.ops->wake};
    pthread_create(&thread, NULL, call_thread, &later);
    want(r, c.ops->progress(c.ctx, &cqe, 1, WAIT_NS) == 0, "wake during");
    pthread_join(thread, NULL);
    want(r, now_ms() - start < 5000, "all that is quick");

    /* A rank that comes late wakes the others; until then they can say who is missing. */
    struct zero_coll q = {.kind = ZERO_BARRIER, .scale = 1};
    int32_t who[RANKS_MAX];
    _Atomic uint64_t *seen = &board->turn[RANKS_MAX - 1];
    if (r->rank == r->ranks - 1) {
        while (atomic_load(seen) + 1 < (uint64_t)r->ranks)
            sleep_ms(1);
        want(r, comm_barrier(&c, c.world) == 0, "late barrier");
    } else {
        want(r, !c.ops->post(c.world, &q, 1, NULL), "post");
        want(r, c.ops->progress(c.ctx, &cqe, 1, 20000000) == 0, "not complete");
        int n = c.ops->missing(c.world, who, RANKS_MAX);
        want(r, n >= 1 && who[n - 1] == r->ranks - 1, "the late rank is missing (%d)", n);
        atomic_fetch_add(seen, 1);
        want(r, c.ops->progress(c.ctx, &cqe, 1, WAIT_NS) == 1, "complete");
        want(r, c.ops->missing(c.world, who, RANKS_MAX) == 0, "nobody is missing");
    }
    comm_end(r, &c);
}

static void aborts(struct rank *r)
{
    struct zero_coll q;
    struct zero_cqe cqes[4];
    struct zero_comm *comm;
    struct comm_rank c;
    pthread_t thread;
    int64_t start = now_ms();
    int got = 0;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    want(r, comm_barrier(&c, c.world) == 0, "all are there: %s", zero_last_error());
    struct call_later later = {&c, 60, c.ops->abort};
    q = reduce_of(&c, 1000);
    if (r->rank == 0) /* waits for nothing, posts nothing, and gives up */
        pthread_create(&thread, NULL, call_thread, &later);
    for (int i = 0; i < 3 && r->rank != 0; i++)
        want(r, !c.ops->post(c.world, &q, 1, NULL), "post");
    while (r->rank != 0 && got < 3) {
        int n = c.ops->progress(c.ctx, cqes, 4, WAIT_NS);
        if (!want(r, n > 0, "progress: %d", n))
            break;
        for (int i = 0; i < n; i++)
            want(r, cqes[i].res == -ECANCELED, "result %" PRId64, cqes[i].res);
        got += n;
    }
    if (r->rank == 0) {
        int n = c.ops->progress(c.ctx, cqes, 4, WAIT_NS);
        want(r, n == -ECANCELED, "own progress: %d", n);
        want(r, c.ops->post(c.world, &q, 1, NULL) == -ECANCELED, "own post");
        pthread_join(thread, NULL);
        want(r, !c.ops->abort(c.ctx), "again");
    } else {
        want(r, strstr(zero_last_error(), "rank 0"), "the rank is named: %s", zero_last_error());
        want(r, c.ops->error(c.world) == -ECANCELED, "sticky");
        want(r, c.ops->post(c.world, &q, 1, NULL) == -ECANCELED, "posts fail");
        want(r, c.ops->split(c.ctx, NULL, 0, 0, &comm) == -ECANCELED, "and so does split");
    }
    want(r, now_ms() - start < 5000, "all that is quick");
    comm_end(r, &c);
}

/* Work in flight is dropped; nobody touches memory that another rank of the process has freed. */
static void abort_in_flight(struct rank *r)
{
    struct zero_cqe cqes[64];
    struct comm_rank c;

    for (uint64_t round = 0; round < 20 && r->bad == 0; round++) {
        if (!comm_open(r, &c, plugin_name, board, 8 * SLAB, NULL, 0))
            return;
        want(r, comm_barrier(&c, c.world) == 0, "all are there: %s", zero_last_error());
        struct zero_coll q = reduce_of(&c, 25000);
        uint64_t stop = mix(round, 1, 1) % 40, culprit = mix(round, 2, 2) % (uint64_t)r->ranks;
        int posted = 0, got = 0, n;
        for (uint64_t i = 0; got < 200; i++) {
            if (i == stop && (uint64_t)r->rank == culprit)
                c.ops->abort(c.ctx);
            q.dst.off = SLAB + i % 64 * 100000;
            int err = c.ops->post(c.world, &q, 1, NULL);
            posted += err == 0;
            want(r, err == 0 || err == -EAGAIN || err == -ECANCELED, "post: %d", err);
            n = c.ops->progress(c.ctx, cqes, 64, got == posted ? 0 : 1000000);
            if (n < 0)
                break;
            got += n;
            if (got == posted && c.ops->error(c.world))
                break;
        }
        int end = c.ops->error(c.world);
        want(r, end == -ECANCELED, "round %" PRIu64 " ends with %d", round, end);
        comm_end(r, &c);
    }
}

/* ---- Death ------------------------------------------------------------------------------------
 */

static void killed(struct rank *r)
{
    struct zero_cqe cqes[8];
    struct comm_rank c;
    int32_t who[RANKS_MAX];
    uint64_t seed = *(uint64_t *)r->arg, victim = mix(seed, 1, 1) % (uint64_t)r->ranks;
    uint64_t when = mix(seed, 2, 2) % 200;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    for (uint64_t i = 0;; i++) {
        struct zero_coll q = i % 2 ? reduce_of(&c, 20000) : gather_of(&c, 4000, r->ranks);
        if (i == when && (uint64_t)r->rank == victim)
            raise(SIGKILL);
        if (!want(r, !c.ops->post(c.world, &q, 1, NULL), "post: %s", zero_last_error()))
            break;
        int64_t until = now_ms() + 10000;
        int n = 0;
        bool named = false;
        while (!named && now_ms() < until && !(n = c.ops->progress(c.ctx, cqes, 8, 200000000))) {
            int k = c.ops->missing(c.world, who, RANKS_MAX); /* the library's deadline */
            while (k > 0)
                named |= (uint64_t)who[--k] == victim;
        }
        if (n == 1 && cqes[0].res >= 0)
            continue;
        if (n == 0) {
            want(r, named, "the dead rank %d is missing", (int)victim);
            c.ops->abort(c.ctx);
            n = c.ops->progress(c.ctx, cqes, 8, WAIT_NS);
            want(r, n == 1 && cqes[0].res == -ECANCELED, "and the collective ends");
        } else {
            want(r, n == 1 && cqes[0].res == -ECANCELED, "another rank was quicker: %d", n);
        }
        break;
    }
    comm_end(r, &c);
}

static void test_killed(int n)
{
    bool good = true;

    for (uint64_t seed = 0; seed < 5; seed++) {
        memset(board, 0, sizeof *board);
        struct rank *all = ranks_run(n, AS_PROCESSES, killed, &seed);
        for (int i = 0; i < n; i++) {
            bool victim = (uint64_t)i == mix(seed, 1, 1) % (uint64_t)n;
            good &= all[i].bad == 0 &&
                    (victim ? WTERMSIG(all[i].status) == SIGKILL : all[i].status == 0);
            for (int k = 0; k < all[i].bad && k < 4; k++)
                diag("seed %" PRIu64 ": %s", seed, all[i].text[k]);
            if (!victim && all[i].status)
                diag("seed %" PRIu64 ": rank %d: wait status 0x%x", seed, i, all[i].status);
        }
    }
    ok(good, "a killed rank of %d: the others report it and go on", n);
}

/* ---- Garbage ----------------------------------------------------------------------------------
 */

/* Rank 1 posts what no sound rank would; the others get errors, and nothing else happens. */
static void garbage(struct rank *r)
{
    struct comm_rank c;

    if (!comm_open(r, &c, plugin_name, board, SLAB, NULL, 0))
        return;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct zero_coll q = seed % 3 ? reduce_of(&c, 512) : gather_of(&c, 512, r->ranks);
        struct zero_cqe cqe;
        struct zero_comm *comm;
        if (!want(r, !c.ops->split(c.ctx, NULL, 0, 0, &comm), "split: %s", zero_last_error()))
            break;
        if (r->rank == 1) {
            struct shm_lane *lane = &comm->lanes[1];
            struct shm_post *post = &lane->ring[0].post;
            uint64_t z = mix(seed, 5, 5);
            for (uint64_t i = 0; i < sizeof *post && seed % 2; i++) /* anything at all */
                ((unsigned char *)post)[i] = (unsigned char)mix(seed, 6, i);
            if (seed % 2 == 0) /* right, but for where the memory is */
                *post = (struct shm_post){.count = q.count,
                                          .sequence = q.sequence,
                                          .kind = q.kind,
                                          .src_dtype = q.src_dtype,
                                          .dst_dtype = q.dst_dtype,
                                          .scale_bits = zero_bits_of_float(q.scale),
                                          .group = q.group,
                                          .epoch = q.epoch,
                                          .src_region = z % 5 ? 0 : (uint32_t)(z >> 32) | 1,
                                          .src_off = z % 3 ? SLAB - z % 2048 : z | 1,
                                          .dst_off = UINT64_MAX - z % 8192};
            atomic_store(&lane->posted, seed % 7 ? 1 : z);
            for (int32_t p = 0; p < comm->ranks; p++)
                zero__bell_ring(&c.ctx->seats[p].bell);
        } else {
            int64_t res;
            res = c.ops->post(comm, &q, 1, NULL); /* a third rank may have found it already */
            if (res == 0)
                res = c.ops->progress(c.ctx, &cqe, 1, WAIT_NS) == 1 ? cqe.res : -ETIMEDOUT;
            want(r, res == -EPROTO, "seed %" PRIu64 ": result %" PRId64, seed, res);
            want(r, strstr(zero_last_error(), "rank "), "a rank is named: %s", zero_last_error());
        }
        want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
        c.ops->comm_close(comm);
    }
    comm_end(r, &c);
}

/* ---- Leftovers ---------------------------------------------------------------------------------
 */

static unsigned count_entries(const char *dir)
{
    unsigned n = 0;
    DIR *d = opendir(dir);

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static unsigned count_mappings(void)
{
    char line[4096];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, "zero-shm") != NULL;
    if (f)
        fclose(f);
    return n;
}

static void once(struct rank *r)
{
    struct comm_rank c;
    if (comm_open(r, &c, plugin_name, board, SLAB, NULL, 0)) {
        want(r, count_mappings() > 0, "there are segments now");
        want(r, comm_barrier(&c, c.world) == 0, "barrier");
        comm_end(r, &c);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        void (*fn)(struct rank *);
        int counts[3];
        bool threads_only;
    } tests[] = {
        {"ranks that post different things", mismatch, {2, 3, 8}, false},
        {"ranks that call different things", calls_apart, {2, 3}, false},
        {"descriptors that are refused", refusals, {1, 2, 3}, false},
        {"waiting and waking", wakes, {2, 4}, false},
        {"an abort ends everything", aborts, {2, 3, 8}, false},
        {"aborts in the middle of work", abort_in_flight, {3}, false},
        {"a rank that posts garbage", garbage, {2, 3}, false},
    };
    unsigned shm_before = count_entries("/dev/shm"), fds_before, t;

    board = shared_memory(sizeof *board);
    ranks_run(2, AS_THREADS, once, NULL); /* what stays open for good is open now */
    fds_before = count_entries("/proc/self/fd");
    for (t = 0; t < sizeof tests / sizeof *tests; t++)
        for (unsigned i = 0; i < 3 && tests[t].counts[i]; i++)
            for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
                int n = tests[t].counts[i];
                memset(board, 0, sizeof *board);
                ranks_good(ranks_run(n, how, tests[t].fn, NULL), n, "%s: %d %s", tests[t].name, n,
                           ranks_how_name[how]);
            }
    test_killed(2);
    test_killed(4);
    is_int(count_entries("/proc/self/fd"), fds_before, "no descriptor stays open");
    is_int(count_mappings(), 0, "no segment stays mapped");
    is_int(count_entries("/dev/shm"), shm_before, "nothing lies in /dev/shm");
    done();
}
