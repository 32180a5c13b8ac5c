/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin shm does beyond the cases of `zero check comm`, when ranks die or write garbage
 * into the memory that they share: an error that names the ranks, never wrong numbers, never a
 * hang, never a crash of the others, and nothing left behind. And what self says.
 */
#include "comm.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/status.h"

#include "../../plugins/shm/shm.h" /* the garbage test writes where a broken rank could */
#include "tools/common/values.h"

#define SLAB (UINT64_C(1) << 20)

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

/* ---- What is refused ------------------------------------------------------------------------- */

/* ---- What a broken rank cannot do ----------------------------------------------------------- */

/* What a child that writes there dies of; 0: nothing. */
static int fatal_signal(char *where)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* sanitizers catch it */
        *(volatile char *)where = 1;
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The parts of peers are there to be read: all ranks would see what a rank wrote there. */
static void read_only(struct rank *r)
{
    struct comm_rank c;
    void *base;

    if (!comm_open(r, &c, plugin_name, SLAB, NULL, 0))
        return;
    if (want(r, c.ops->map(c.ctx, c.mr, 0, SLAB, &base) == 0, "map: %s", zero_last_error()))
        for (int p = 0; p < r->ranks; p++)
            want(r, fatal_signal((char *)base + (uint64_t)p * SLAB + SLAB / 2) ==
                        (p == r->rank ? 0 : SIGSEGV),
                 "rank %d's part", p);
    want(r, comm_barrier(&c, c.world) == 0, "barrier");
    comm_end(r, &c);
}

/* Memory that peers could not read. */
static void refusals(struct rank *r)
{
    struct comm_rank c;
    struct zero_mr *mr;
    static char own[4096];
    void *base;

    if (!comm_open(r, &c, plugin_name, SLAB, NULL, 0))
        return;
    want(r, c.ops->reg(c.ctx, own, sizeof own, ZERO_MEM_HOST, &mr) == -ENOTSUP, "foreign memory");
    want(r, c.ops->reg(c.ctx, c.memory, SLAB + 4096, ZERO_MEM_HOST, &mr) == -ENOTSUP, "too long");
    want(r, c.ops->alloc(c.ctx, UINT64_C(1) << 60, ZERO_MEM_HOST, &base, &mr) == -ENOMEM,
         "too much");
    want(r, strstr(zero_last_error(), " are left "), "and how much there is: %s",
         zero_last_error());
    want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    comm_end(r, &c);
}

static void alone(struct rank *r)
{
    struct comm_rank c;
    struct zero_mr *mr;
    void *base;

    if (!comm_open(r, &c, "self", SLAB, NULL, 0))
        return;
    int err = c.ops->alloc(c.ctx, UINT64_C(1) << 60, ZERO_MEM_HOST, &base, &mr);
    want(r, err == -ENOMEM && strstr(zero_last_error(), "or train a smaller model"),
         "too much: %d, %s", err, zero_last_error());
    want(r, !c.ops->error(c.world), "an error before the abort");
    want(r, !c.ops->abort(c.ctx), "abort: %s", zero_last_error());
    zero__fail(-EIO, "nothing was said");
    err = c.ops->error(c.world);
    want(r, err == -ECANCELED && strstr(zero_last_error(), "aborted"), "after an abort: %d, %s",
         err, zero_last_error());
    comm_end(r, &c);
}

/* ---- Death ----------------------------------------------------------------------------------- */

static void killed(struct rank *r)
{
    struct zero_cqe cqes[8];
    struct comm_rank c;
    int32_t who[RANKS_MAX];
    uint64_t seed = *(uint64_t *)r->arg, victim = mix(seed, 1, 1) % (uint64_t)r->ranks;
    uint64_t when = mix(seed, 2, 2) % 200;

    if (!comm_open(r, &c, plugin_name, SLAB, NULL, 0))
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
        struct rank *all = comm_ranks(n, AS_PROCESSES, killed, &seed);
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

/* ---- Garbage --------------------------------------------------------------------------------- */

/* Rank 1 posts what no sound rank would; the others get errors, and nothing else happens. */
static void garbage(struct rank *r)
{
    struct comm_rank c;

    if (!comm_open(r, &c, plugin_name, SLAB, NULL, 0))
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
                *post = (struct shm_post){.src_region = z % 5 ? 0 : (uint32_t)(z >> 32) | 1,
                                          .src_off = z % 3 ? SLAB - z % 2048 : z | 1,
                                          .dst_off = UINT64_MAX - z % 8192};
            if (seed % 2 == 0)
                zero__fingerprint_make(&q, 0, &post->print);
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

/* ---- Places ---------------------------------------------------------------------------------- */

/* Rank 0 says that the control block lies where nobody has anything. */
static int post_astray(void *ctx, const void *src, uint32_t len)
{
    struct shm_notice n;

    if (len != sizeof n)
        return oob_post(ctx, src, len);
    memcpy(&n, src, sizeof n);
    if (n.call == SHM_CALL_OPEN && n.memory.object)
        n.memory.object = 8;
    return oob_post(ctx, &n, sizeof n);
}

/* Threads would follow it; they find the memory as processes do. */
__attribute__((unused)) static void astray(struct rank *r)
{
    struct comm_rank c;

    if (!comm_load(r, &c, plugin_name, NULL, 0))
        return;
    c.oob.post = r->rank ? oob_post : post_astray;
    if (want(r, !comm_context(&c), "open: %s", zero_last_error()) &&
        want(r, !c.ops->split(c.ctx, NULL, 0, 0, &c.world), "split: %s", zero_last_error()))
        want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    comm_end(r, &c);
}

/* ---- Leftovers ------------------------------------------------------------------------------- */

/* Entries whose names begin so; other tests leave theirs meanwhile. */
static unsigned count_entries(const char *dir, const char *begin)
{
    unsigned n = 0;
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, begin, strlen(begin)) == 0;
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
    if (comm_open(r, &c, plugin_name, SLAB, NULL, 0)) {
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
        {"memory that is refused", refusals, {1, 2, 3}, false},
        {"a rank that is alone", alone, {1}, false},
        {"writing into a peer's mapped part", read_only, {2, 3}, false},
        {"a rank that posts garbage", garbage, {2, 3}, false},
#ifndef __SANITIZE_THREAD__ /* it takes the same bytes at two addresses for two */
        {"a pointer that leads nowhere", astray, {2, 3}, false},
#endif
    };
    unsigned shm_before = count_entries("/dev/shm", "zero"), fds_before, t;

    comm_ranks(2, AS_THREADS, once, NULL); /* what stays open for good is open now */
    fds_before = count_entries("/proc/self/fd", "");
    for (t = 0; t < sizeof tests / sizeof *tests; t++)
        for (unsigned i = 0; i < 3 && tests[t].counts[i]; i++)
            for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
                int n = tests[t].counts[i];
                ranks_good(comm_ranks(n, how, tests[t].fn, NULL), n, "%s: %d %s", tests[t].name, n,
                           ranks_how_name[how]);
            }
    test_killed(2);
    test_killed(4);
    is_int(count_entries("/proc/self/fd", ""), fds_before, "no descriptor stays open");
    is_int(count_mappings(), 0, "no segment stays mapped");
    is_int(count_entries("/dev/shm", "zero"), shm_before, "nothing lies in /dev/shm");
    done();
}
