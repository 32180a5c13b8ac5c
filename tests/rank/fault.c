/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin `fault` over shm: each fault happens to the rank and at the time that were asked
 * for, the ranks whose collectives differ are named by all, and text that is no fault is refused.
 * (Whole jobs whose ranks die or stand still: tests/rank/fault_jobs.sh.)
 */
#include "comm.h"

#include <inttypes.h>

#define SLAB (UINT64_C(1) << 20)
#define ROUNDS 6

static const char *text; /* ZERO_FAULT */

static bool start(struct rank *r, struct comm_rank *c)
{
    const struct zero_setting settings[] = {{"fault", text}};

    return comm_open(r, c, "fault", SLAB, settings, 1);
}

/* The number-th all_reduce of a program in which nothing is wrong. */
static struct zero_coll reduction(struct comm_rank *c, uint64_t number)
{
    return (struct zero_coll){.kind = ZERO_ALL_REDUCE,
                              .src_dtype = ZERO_F32,
                              .dst_dtype = ZERO_F32,
                              .scale = 1,
                              .count = 64,
                              .sequence = number,
                              .user = number,
                              .src = comm_slice(c, 0, 256),
                              .dst = comm_slice(c, 4096, 256)};
}

static struct zero_coll gather(struct comm_rank *c, int ranks, uint64_t number)
{
    struct zero_coll q = reduction(c, number);

    q.kind = ZERO_ALL_GATHER;
    q.dst.len = 256 * (uint64_t)ranks;
    return q;
}

static void run(int n, enum ranks_how how, const char *fault, void (*fn)(struct rank *))
{
    text = fault;
    ranks_good(comm_ranks(n, how, fn, NULL), n, "%s: %d %s", fault, n, ranks_how_name[how]);
}

/* Nothing happens: all as if the plugin were not there. */
static void harmless(struct rank *r)
{
    struct comm_rank c = {0};

    for (uint64_t i = 0; (i || start(r, &c)) && i < ROUNDS; i++) {
        struct zero_coll q = reduction(&c, i);
        for (int k = 0; k < 64; k++)
            ((float *)(void *)c.memory)[k] = (float)(r->rank + 1);
        want(r, comm_run(&c, c.world, &q) == 256, "round %" PRIu64 ": %s", i, zero_last_error());
        want(r, ((float *)(void *)(c.memory + 4096))[63] == (float)(r->ranks * (r->ranks + 1) / 2),
             "a wrong sum");
    }
    comm_end(r, &c);
}

/* Rank 1 goes apart at its third collective, or at most two later; all hear between whom. */
static void apart(struct rank *r)
{
    struct comm_rank c = {0};
    int64_t res = 0;
    uint64_t i = 0;

    for (bool good = start(r, &c); good && i < ROUNDS && res >= 0; i++) {
        struct zero_coll q = i % 2 ? gather(&c, r->ranks, i) : reduction(&c, i);
        res = comm_run(&c, c.world, &q);
    }
    want(r, res == -EPROTO, "result %" PRId64 ": %s", res, zero_last_error());
    want(r, i >= 3 && i <= 5, "at collective %" PRIu64, i);
    if (c.world && want(r, c.ops->error(c.world) == -EPROTO, "not sticky"))
        want(r, strstr(zero_last_error(), "on rank 1"), "rank 1 is not named: %s",
             zero_last_error());
    comm_end(r, &c);
}

/* Two in one batch, and after it two one by one. */
static void swapped(struct rank *r)
{
    struct comm_rank c = {0};

    if (start(r, &c)) {
        struct zero_coll q[2] = {reduction(&c, 1), gather(&c, r->ranks, 2)};
        int err = c.ops->post(c.world, q, 2, NULL);
        want(r, !err || err == -EPROTO, "post: %s", zero_last_error());
        for (int i = 0; i < 2 && !err; i++) /* unless the others have found out before */
            want(r, comm_wait(&c, NULL) == -EPROTO, "number %d: %s", i, zero_last_error());
        want(r, c.ops->error(c.world) == -EPROTO, "not sticky");
        want(r, strstr(zero_last_error(), "the kind is") && strstr(zero_last_error(), "on rank 1"),
             "\"%s\"", zero_last_error());
    }
    comm_end(r, &c);
}

/* What is held back and never followed by another one ends with an abort, and names its rank. */
static void held(struct rank *r)
{
    struct comm_rank c = {0};
    int32_t who = -1;

    if (start(r, &c)) {
        struct zero_coll q = reduction(&c, 1);
        struct zero_cqe cqe;
        want(r, !c.ops->post(c.world, &q, 1, NULL), "post: %s", zero_last_error());
        want(r, c.ops->progress(c.ctx, &cqe, 1, 200000000) == 0, "complete without rank 1");
        want(r, c.ops->missing(c.world, &who, 1) == 1 && who == 1, "rank %d is missing", who);
        sleep_ms(200); /* until all have looked */
        want(r, !c.ops->abort(c.ctx), "abort");
        want(r, comm_wait(&c, NULL) == -ECANCELED, "%s", zero_last_error());
        want(r, c.ops->progress(c.ctx, &cqe, 1, 0) == -ECANCELED, "and then nothing more");
    }
    comm_end(r, &c);
}

/* The second post of rank 1 fails; it gives up, and the others hear so. */
static void refused(struct rank *r)
{
    struct comm_rank c = {0};

    if (start(r, &c)) {
        struct zero_coll q = reduction(&c, 1);
        want(r, comm_run(&c, c.world, &q) == 256, "the first: %s", zero_last_error());
        int64_t res = comm_run(&c, c.world, &q);
        if (r->rank == 1) {
            want(r, res == -EIO, "result %" PRId64, res);
            want(r, strstr(zero_last_error(), "fails on rank 1"), "\"%s\"", zero_last_error());
            c.ops->abort(c.ctx);
        } else {
            want(r, res == -ECANCELED, "result %" PRId64, res);
            want(r, c.ops->error(c.world) == -ECANCELED, "not sticky");
            want(r, strstr(zero_last_error(), "rank 1"), "\"%s\"", zero_last_error());
        }
    }
    comm_end(r, &c);
}

/* The first completion on rank 1 is an error, and its communicator stays failed there. */
static void spoiled(struct rank *r)
{
    struct comm_rank c = {0};

    if (start(r, &c)) {
        struct zero_coll q = reduction(&c, 1);
        int64_t res = comm_run(&c, c.world, &q);
        want(r, res == (r->rank == 1 ? -EIO : 256), "result %" PRId64, res);
        if (r->rank == 1) {
            want(r, c.ops->error(c.world) == -EIO, "not sticky");
            want(r, strstr(zero_last_error(), "all_reduce"), "\"%s\"", zero_last_error());
            want(r, c.ops->post(c.world, &q, 1, NULL) == -EIO, "a post after it");
        }
    }
    comm_end(r, &c);
}

/* Rank 1 is late twice, by 100 ms each. */
static void late(struct rank *r)
{
    struct comm_rank c = {0};

    if (start(r, &c)) {
        int64_t from = now_ms();
        for (int i = 0; i < 4; i++)
            want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
        want(r, now_ms() - from >= 195, "it took %d ms", (int)(now_ms() - from));
    }
    comm_end(r, &c);
}

/* One rank, whichever it is, gets an error, at the same place in every run with the same seed. */
static void chosen(struct rank *r)
{
    struct comm_rank c = {0};

    r->value = -1;
    if (start(r, &c))
        for (int i = 0; i < 20 && r->value < 0; i++) {
            int64_t res = comm_barrier(&c, c.world);
            if (res == -EIO) {
                r->value = i;
                c.ops->abort(c.ctx);
            } else if (res) {
                break;
            }
        }
    comm_end(r, &c);
}

static void seeds(void)
{
    int64_t got[2][3];
    int hit = 0;

    text = "error=EIO:n=3-12";
    for (int k = 0; k < 2; k++) {
        const struct rank *all = comm_ranks(3, AS_THREADS, chosen, NULL);
        ranks_good(all, 3, "%s: 3 threads", text);
        for (int p = 0; p < 3; p++)
            got[k][p] = all[p].value;
    }
    for (int p = 0; p < 3; p++)
        hit += got[0][p] >= 2 && got[0][p] <= 11;
    is_int(hit, 1, "one rank got the error, between its third and twelfth collective");
    ok(memcmp(got[0], got[1], sizeof got[0]) == 0, "the same one at the same place again");
}

/* Text that is no fault: refused by the probe, quoted, and the grammar is shown. */
static void refusals(void)
{
    static const char *const bad[] = {
        "explode",
        "delay",
        "delay=x",
        "delay=-1",
        "delay=99999999999",
        "error",
        "error=EWHAT",
        "error=0",
        "kill=9",
        "skip:rank",
        "skip:rank=-1",
        "skip:rank=one",
        "skip:n=0",
        "skip:n=5-2",
        "skip:times=0",
        "skip:at=close",
        "kill:at=moon",
        "skip:kind=x",
        "kill:at=open:kind=barrier",
        "skip:colour=1",
        "skip,",
        ",skip",
        "kill:at=close:comm=1",
        "kill:",
        ":kill",
        "kill::rank=0",
        "size:n=18446744073709551616",
    };
    struct rank r = {.ranks = 1};

    comm_board_make();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct zero_setting settings[] = {{"fault", bad[i]}};
        struct zero_comm_caps caps = {.size = sizeof caps};
        struct comm_rank c = {0};
        char first[64];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(bad[i], ","), bad[i]);
        if (comm_load(&r, &c, "fault", settings, 1)) {
            is_int(c.ops->probe(zero__loader_host(c.loader), &caps), -EINVAL, "\"%s\" is refused",
                   bad[i]);
            has_str(zero_last_error(), first, "and quoted");
            has_str(zero_last_error(), "ACTION[:KEY=VALUE]", "with the grammar");
        }
        comm_end(&r, &c);
    }
    ok(r.bad == 0, "the plugin loads all the same");
}

/* Text of which there is too much: the limit is said. */
static void limits(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip,skip",
         "has more than 16 faults: leave some out"},
        {"skip:rank=0000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "0000000001",
         "it has more than 95 characters; ACTION[:KEY=VALUE]"},
    };
    struct rank r = {.ranks = 1};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct zero_setting settings[] = {{"fault", bad[i].text}};
        struct zero_comm_caps caps = {.size = sizeof caps};
        struct comm_rank c = {0};
        if (comm_load(&r, &c, "fault", settings, 1)) {
            is_int(c.ops->probe(zero__loader_host(c.loader), &caps), -EINVAL,
                   "too much is refused");
            has_str(zero_last_error(), bad[i].says, "with the limit");
        }
        comm_end(&r, &c);
    }
    ok(r.bad == 0, "the plugin loads then, too");
}

/* A rank that there is not: only open() knows. */
static void nobody(struct rank *r)
{
    const struct zero_setting settings[] = {{"fault", text}};
    struct comm_rank c = {0};

    if (comm_load(r, &c, "fault", settings, 1)) {
        want(r, comm_context(&c) == -EINVAL, "it is not refused");
        want(r, strstr(zero_last_error(), "there is no rank 7"), "\"%s\"", zero_last_error());
    }
    comm_end(r, &c);
}

int main(void)
{
    comm_require("fault");
    refusals();
    limits();
    run(2, AS_THREADS, "skip:rank=7", nobody);
    for (int n = 2; n <= 3; n++)
        for (enum ranks_how how = AS_THREADS; how <= AS_PROCESSES; how++) {
            run(n, how, "", harmless);
            run(n, how, "skip:rank=1:n=100", harmless);
            run(n, how, "skip:rank=1:kind=broadcast,size:rank=0:comm=2", harmless);
            run(n, how, "skip:rank=1:n=3", apart);
            run(n, how, "size:rank=1:n=3", apart);
            run(n, how, "dtype:rank=1:n=3", apart);
            run(n, how, "dtype:rank=1:kind=all_gather:n=2", apart);
            run(n, how, "size:rank=1:kind=all_gather:n=2:times=9", apart);
            run(n, how, "order:rank=1", swapped);
            run(n, how, "error=EIO:rank=1:n=2", refused);
            run(n, how, "error=5:rank=1:at=done", spoiled);
            run(n, how, "delay=100:rank=1:n=2:times=2", late);
        }
    run(2, AS_THREADS, "order:rank=1", held);
    seeds();
    done();
}
