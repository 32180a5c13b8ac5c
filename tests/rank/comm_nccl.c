/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin nccl through a fake library and the host device: the cases of `zero check comm`, ranks
 * as processes and as threads, with launches that come late or not; nothing is left of NCCL's
 * afterwards, and nothing was asked of it that it would not take.
 */
#include "cases.h"
#include "device/host.h"
#include "nccl.h"
#include "nccl_late.h"
#include "nccl_narrow.h"

static const struct check_case *current;
static enum ranks_how way;
static uint64_t seed = 1;

static bool device_open(struct rank *r, struct comm_rank *c, struct zero_device **dev)
{
    const struct zero_device_open params = {.size = sizeof params,
                                            .host = zero__loader_host(c->loader),
                                            .threads = 1,
                                            .timeout_ns = 4 * WAIT_NS};

    return want(r, !zero__host_device_ops.open(&params, dev), "device: %s", zero_last_error());
}

static void run_case(struct rank *r)
{
    struct zero_device *dev = NULL;
    struct comm_rank c = {0};
    struct check_rank k;
    const char *why;

    if (comm_load(r, &c, "nccl", NULL, 0) && device_open(r, &c, &dev)) {
        k = case_rank(r, &c, "nccl", seed * 1000);
        k.device_ops = &zero__host_device_ops;
        k.device = dev;
        if (case_probe(r, &k) && check_applies(current, &k, &why))
            current->run(&k);
        case_complain(r, &k);
    }
    zero__host_device_ops.close(dev);
    comm_end(r, &c);
    if (way == AS_PROCESSES)
        fake_nccl_left(r);
}

static void run(const struct check_case *test, int n, enum ranks_how how)
{
    current = test;
    way = how;
    ranks_good(comm_ranks(n, how, run_case, NULL), n, "nccl, %s: %d %s, seed %" PRIu64, test->name,
               n, ranks_how_name[how], seed);
}

static void run_all(int n, enum ranks_how how, const char *slow)
{
    if (slow)
        setenv("FAKE_NCCL_SLOW", slow, 1);
    for (const struct check_case *test = check_comm_cases; test->name; test++)
        if (n >= test->least_ranks && (how == AS_THREADS || RANKS_PROCESSES))
            run(test, n, how);
    unsetenv("FAKE_NCCL_SLOW");
    seed++;
}

/*
 * A batch that NCCL's thread holds up is posted again when that is through, and progress() says
 * when: also where error() has seen it before.
 */
static void batch_waits(struct check_rank *k)
{
    struct check_comm c = {0};
    struct zero_cqe cqe;
    void *stream;
    int err = 0, n;

    if (check_open(k, &c, 1 << 16) &&
        check_want(k, !k->device_ops->stream_create(k->device, "waits", &stream), __FILE__,
                   __LINE__, "stream: %s", check_error())) {
        struct zero_coll q = check_gather(&c, 64);
        for (int i = 0; i < 200 && !err; i++)
            err = c.ops->post(c.world, &q, 1, stream);
        check_want(k, err == -EAGAIN, __FILE__, __LINE__, "no batch waits: %d", err);
        check_sleep_ms(200);
        err = c.ops->error(c.world);
        check_want(k, !err, __FILE__, __LINE__, "error: %s", check_error());
        int64_t began = check_now_ms();
        n = c.ops->progress(c.ctx, &cqe, 1, 2 * WAIT_NS);
        int64_t ms = check_now_ms() - began;
        check_want(k, n == 0 && ms < WAIT_NS / 1000000, __FILE__, __LINE__,
                   "it is told after %d ms (%d)", (int)ms, n);
        while ((err = c.ops->post(c.world, &q, 1, stream)) == -EAGAIN)
            c.ops->progress(c.ctx, &cqe, 1, 1000000);
        check_want(k, !err && !k->device_ops->stream_sync(k->device, stream, WAIT_NS), __FILE__,
                   __LINE__, "post: %s", check_error());
        check_want(k, !c.ops->comm_close(c.world), __FILE__, __LINE__, "comm_close: %s",
                   check_error());
        k->device_ops->stream_destroy(k->device, stream);
    }
    check_close(&c);
}

/* The device of rank 1 is nearly full. */
static struct zero_device_ops scarce;

static int scarce_alloc(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base)
{
    return bytes > 1 << 20 ? -ENOMEM : zero__host_device_ops.alloc(dev, bytes, mem, base);
}

/* All memory of a communicator comes with it: where a rank has none, no rank has one. */
static void no_memory(struct check_rank *k)
{
    struct zero_comm_open open = opens(k, WAIT_NS);
    const char *says = k->rank == 1 ? "two buffers of 16777216 bytes" : "split failed on rank 1";
    struct zero_comm_ctx *ctx = NULL;
    struct zero_comm *comm = NULL;

    if (k->rank == 1)
        open.device_ops = &scarce;
    if (!check_want(k, !k->ops->open(&open, &ctx), __FILE__, __LINE__, "open: %s", check_error()))
        return;
    int err = k->ops->split(ctx, NULL, 0, 0, &comm);
    check_want(k, err == -ENOMEM && !comm && strstr(check_error(), says) &&
               strstr(check_error(), "a smaller ZERO_NCCL_STAGING"), __FILE__, __LINE__,
               "split: %d: %s", err, check_error());
    check_want(k, !k->ops->close(ctx), __FILE__, __LINE__, "close: %s", check_error());
}

/* Of a split's calls one fails on rank 1, at once or later: it says so, and neither rank hangs. */
static void split_fails(struct check_rank *k)
{
    const struct zero_comm_open open = opens(k, 3 * INT64_C(1000000000));
    struct zero_comm_ctx *ctx = NULL;
    struct zero_comm *world = NULL, *part = NULL;

    if (!check_want(k, !k->ops->open(&open, &ctx), __FILE__, __LINE__, "open: %s", check_error()))
        return;
    int err = k->ops->split(ctx, NULL, 0, 0, &world);
    if (check_want(k, !err, __FILE__, __LINE__, "the world: %s", check_error())) {
        const int64_t began = check_now_ms();
        err = k->ops->split(ctx, world, 0, 0, &part);
        check_want(k, k->rank == 0 || (err && !part && strstr(check_error(), "split")), __FILE__,
                   __LINE__, "split: %d: %s", err, check_error());
        check_want(k, check_now_ms() - began < 10000, __FILE__, __LINE__, "split hangs");
        if (part)
            check_want(k, !k->ops->comm_close(part), __FILE__, __LINE__, "comm_close: %s",
                       check_error());
        k->ops->comm_close(world);
    }
    k->ops->close(ctx);
}

static void each_split_fails(void)
{
    /* CommCount ends what goes on: first the world's beginning, then the parent's split. */
    static const struct {
        const char *name;
        unsigned k;
    } calls[] = {{"CommSplit", 1}, {"CommUserRank", 1}, {"CommCount", 2}, {"CommCount", 3}};
    static struct check_case test = {.run = split_fails};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int later = 0; later < (i ? 1 : 2); later++) {
            char name[64];
            snprintf(name, sizeof name, "%s %u fails%s", calls[i].name, calls[i].k,
                     later ? ", later" : "");
            test.name = name;
            fake_nccl()->fail(1, calls[i].name, calls[i].k, 2, later); /* ncclSystemError */
            run(&test, 2, AS_THREADS);
            ok(fake_nccl()->has_failed(), "%s: it did", name);
            fake_nccl()->fail(1, "", 0, 0, false);
        }
}

/*
 * Rank 1 closes at once, so that the split of rank 0 fails; NCCL's abort of its parent takes longer
 * than the split waits for it, and writes where the part was wanted when the context is closing.
 */
static void split_outlived(struct check_rank *k)
{
    const struct zero_comm_open open = opens(k, 2 * INT64_C(1000000000));
    struct zero_comm_ctx *ctx = NULL;
    struct zero_comm *world = NULL, *part = NULL;

    if (!check_want(k, !k->ops->open(&open, &ctx), __FILE__, __LINE__, "open: %s", check_error()))
        return;
    int err = k->ops->split(ctx, NULL, 0, 0, &world);
    if (check_want(k, !err, __FILE__, __LINE__, "the world: %s", check_error()) && k->rank == 0) {
        err = k->ops->split(ctx, world, 0, 0, &part);
        check_want(k, err && !part, __FILE__, __LINE__, "split: %d", err);
    }
    check_want(k, !k->ops->close(ctx), __FILE__, __LINE__, "close: %s", check_error());
}

/* The sum that is a barrier fails, at once or later: so does the communicator, and says so. */
static void barrier_fails(struct check_rank *k)
{
    struct check_comm c = {0};
    struct zero_coll q = {.kind = ZERO_BARRIER, .scale = 1};

    if (check_open(k, &c, 1 << 16)) {
        int64_t err = check_run(&c, c.world, &q);
        check_want(k, err == -EIO && strstr(check_error(), "barrier: unhandled system error"),
                   __FILE__, __LINE__, "barrier: %d: %s", (int)err, check_error());
    }
    check_close(&c);
}

/* Rank 1 comes late: meanwhile rank 0 is told to try again, before its stream is full. */
static void stream_fills(struct check_rank *k)
{
    const int posts = 1500;
    struct check_comm c = {0};
    struct zero_cqe cqe;
    void *stream = NULL;
    int64_t longest = 0;
    int err, again = 0;

    if (k->rank == 0)
        k->device_ops = &narrow;
    if (check_open(k, &c, 1 << 16) &&
        check_want(k, !k->device_ops->stream_create(k->device, "fills", &stream), __FILE__,
                   __LINE__, "stream: %s", check_error())) {
        struct zero_coll q = check_scatter(&c, 64);
        q.src_dtype = q.dst_dtype = ZERO_BF16;
        q.src.len = 2 * 64 * 2;
        q.dst.len = 64 * 2;
        check_sleep_ms(k->rank == 0 ? 0 : 1000);
        for (int i = 0; i < posts && !k->n_bad; i++) {
            int64_t began = check_now_ms(), took;
            while ((err = c.ops->post(c.world, &q, 1, stream)) == -EAGAIN) {
                took = check_now_ms() - began;
                longest = took > longest ? took : longest;
                again += c.ops->progress(c.ctx, &cqe, 1, WAIT_NS) == 0;
                began = check_now_ms();
            }
            check_want(k, !err, __FILE__, __LINE__, "post %d: %s", i, check_error());
        }
        check_want(k, k->rank || (again && !atomic_load(&held) && longest < 1000), __FILE__,
                   __LINE__, "%d times again, posts of %d ms, held %d", again, (int)longest,
                   atomic_load(&held));
        check_want(k, !k->device_ops->stream_sync(k->device, stream, WAIT_NS), __FILE__, __LINE__,
                   "stream: %s", check_error());
        check_want(k, k->rank || atomic_load(&kernels) == 2 * posts, __FILE__, __LINE__,
                   "%d kernels for %d sums", atomic_load(&kernels), posts);
        check_want(k, !c.ops->comm_close(c.world), __FILE__, __LINE__, "comm_close: %s",
                   check_error());
        k->device_ops->stream_destroy(k->device, stream);
    }
    check_close(&c);
}

static void nothing_left(void)
{
    struct rank r = {0};

    fake_nccl_left(&r);
    ok(!r.bad, "nothing of NCCL's is left, nothing was misused");
    if (r.bad)
        diag("%s", r.text[0]);
}

int main(void)
{
    static const struct check_case waits = {.name = "a batch that waits", .run = batch_waits};
    static const struct check_case full = {.name = "a device that is full", .run = no_memory};
    static const struct check_case outlived = {.name = "a split that NCCL ends late",
                                               .run = split_outlived};
    static const struct check_case fills = {.name = "a stream that fills", .run = stream_fills};
    static const struct check_case late[] = {
        {.name = "a split whose meetings are late", .run = split_late},
        {.name = "an exchange whose meetings are late", .run = exchange_late},
    };
    static const struct check_case stays = {.name = "a launch that does not end",
                                            .run = launch_stays};
    static const struct check_case barrier = {.name = "a barrier that fails",
                                              .run = barrier_fails};
    const bool brief = is_short();

    fake_nccl_choose("libnccl");
    run_all(2, AS_PROCESSES, NULL);
    run_all(3, AS_PROCESSES, "7");
    run_all(2, AS_THREADS, "3");
    setenv("FAKE_NCCL_SLOW", "11", 1);
    run(&waits, 1, AS_THREADS);
    unsetenv("FAKE_NCCL_SLOW");
    scarce = zero__host_device_ops;
    scarce.alloc = scarce_alloc;
    run(&full, 2, AS_THREADS);
    narrow_make();
    run(&fills, 2, AS_THREADS);
    setenv("FAKE_NCCL_VERSION", "21805", 1); /* a call that goes on is its thread's */
    run_all(2, AS_THREADS, "13");
    unsetenv("FAKE_NCCL_VERSION");
    each_split_fails();
    for (int later = 0; later < 2; later++) {
        fake_nccl()->fail(0, "AllReduce", 1, NCCL_SYSTEM_ERROR, later);
        run(&barrier, 1, AS_THREADS);
    }
    fake_nccl()->fail(0, "GroupEnd", 1, NCCL_IN_PROGRESS, true);
    run(&stays, 1, AS_THREADS);
    fake_nccl()->fail(0, "", 0, 0, false);
    run(&late[0], 2, AS_THREADS);
    run(&late[1], 2, AS_THREADS);
    setenv("FAKE_NCCL_ABORT_MS", "3000", 1);
    run(&outlived, 2, AS_THREADS);
    unsetenv("FAKE_NCCL_ABORT_MS");
    if (!brief) {
        run_all(1, AS_THREADS, NULL);
        if (is_whole())
            run_all(3, AS_THREADS, NULL);
        setenv("ZERO_NCCL_STAGING", "65536", 1); /* sums in pieces */
        run_all(4, AS_THREADS, "5");
        unsetenv("ZERO_NCCL_STAGING");
        fake_nccl_choose("libnccl_2_18"); /* registers nothing */
        setenv("FAKE_NCCL_VERSION", "21805", 1);
        run_all(2, AS_PROCESSES, NULL);
        unsetenv("FAKE_NCCL_VERSION");
        fake_nccl_choose("libnccl");
    }
    nothing_left();
    done();
}
