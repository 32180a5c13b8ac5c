/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport whose collectives are ordered in the device's streams, as on a GPU: the same bits as
 * shm, on which it stands, whatever runs ahead of what; and failures that are told as everywhere.
 * The plugin also compares the order in which ranks post over both communicators. And the end of a
 * runtime while a stream still works on memory that the device gave.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "engine/runtime.h"
#include "run/runner.h"
#include "toy.h"
#include "try.h"

#define ELEMENTS (1 << 14)
#define READ_MS 300

static char streamed[4096], shm[4096], mem[4096];

struct config {
    const char *stage, *accum, *reduce_at;
    int ranks;
    uint32_t flags, dtype;
    const char *name, *value; /* one more setting, or NULL */
};

static int run(const struct config *c, const char *comm, const char *timeout,
               const struct toy *with, struct toy_result *r)
{
    struct zero_setting s[] = {
        {"stage", c->stage}, {"accum", c->accum}, {"reduce_at", c->reduce_at},
        {"clip", "0.5"},     {"lr", "0.01"},      {"timeout", timeout},
        {"comm", comm},      {c->name, c->value}};
    struct toy t = *with;

    t.ranks = c->ranks;
    t.layers = 5;
    t.dtype = c->dtype;
    t.flags |= c->flags;
    t.width = c->name && !strcmp(c->name, "map") ? 6144 : 1500; /* pages */
    t.settings = s;
    t.n_settings = c->name ? 8 : 7;
    t.seed = 11;
    if (comm == streamed)
        setenv("ZERO_STREAMED_PLUGIN", shm, 1);
    int err = toy_train(&t, r);
    unsetenv("ZERO_STREAMED_PLUGIN");
    return err;
}

/* Where a post finds no room, on each rank another one, no other overtakes it. */
static const struct config crowded = {"3",        "1",       "auto",           3,
                                      TOY_STREAM, ZERO_BF16, "prefetch_bytes", "8K"};

static void same(const struct config *c)
{
    struct toy with = {.steps = 5};
    struct toy_result plain, r;

    const char *busy = c == &crowded ? "5" : NULL;

    run(c, shm, "20", &with, &plain);
    if (busy)
        setenv("ZERO_STREAMED_BUSY", busy, 1);
    run(c, streamed, "20", &with, &r);
    unsetenv("ZERO_STREAMED_BUSY");
    ok(!plain.err && !r.err && r.agree && r.hash == plain.hash &&
           r.info.wire_bytes == plain.info.wire_bytes,
       "stage %s, %d ranks, %s, %s micro-batches%s%s, flags %x", c->stage, c->ranks,
       zero_dtype_name(c->dtype), c->accum, c->name ? ", " : "", c->name ? c->name : "", c->flags);
    if (plain.err || r.err)
        diag("%s", plain.err ? plain.error : r.error);
    else
        diag("hash %016" PRIx64 ", in streams %016" PRIx64 ", agree %d; wire %" PRIu64
             " and %" PRIu64,
             plain.hash, r.hash, r.agree, plain.info.wire_bytes, r.info.wire_bytes);
}

/* ---- A long job ------------------------------------------------------------------------------ */

static atomic_int n_far_on; /* ranks */

/* As if so many collectives had gone by. Those of the commit have: it waited for them. */
static void far_on(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rank, (void)arg;
    pthread_mutex_lock(&rt->run->lock);
    if (rt->run->n_begun == rt->run->n_placed) {
        rt->run->n_placed = rt->run->n_begun = UINT32_MAX - 40;
        atomic_fetch_add(&n_far_on, 1);
    }
    pthread_mutex_unlock(&rt->run->lock);
}

static void long_job(void)
{
    struct config c = {"3", "1", "auto", 2, TOY_STREAM, ZERO_BF16, NULL, NULL};
    struct toy with = {.steps = 5}, far = {.steps = 5, .committed = far_on};
    struct toy_result plain, r;

    run(&c, shm, "20", &with, &plain);
    run(&c, streamed, "20", &far, &r);
    ok(!plain.err && !r.err && r.agree && r.hash == plain.hash && atomic_load(&n_far_on) == 2,
       "collectives beyond the 2^32nd");
    diag("%s", r.err ? r.error : "all ended");
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void linger(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                   void *arg)
{
    (void)rt, (void)info, (void)arg;
    if (rank == 1 && step == 1)
        usleep(2500000);
}

static void end_it(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                   void *arg)
{
    (void)info, (void)arg;
    if (rank == 1 && step == 1)
        zero_abort(rt, "the test ends it");
}

static void failures(const char *stage)
{
    struct config c = {stage, "1", "auto", 2, 0, ZERO_F32, NULL, NULL};
    struct toy late = {.steps = 4, .stepped = linger}, ends = {.steps = 4, .stepped = end_it},
               apart = {.steps = 4, .flags = TOY_REORDER | TOY_APART};
    struct toy_result r;

    run(&c, streamed, "0.7", &late, &r);
    ok(r.err == -ETIMEDOUT && strstr(r.error, "waited 0.7 s (ZERO_TIMEOUT) for rank 1"),
       "stage %s: a rank that does not come is named, and the op", stage);
    diag("%d %s", r.err, r.error);
    run(&c, streamed, "20", &ends, &r);
    ok(r.err == -ECANCELED && strstr(r.error, "the test ends it"),
       "stage %s: an abort ends what waits in streams", stage);
    diag("%d %s", r.err, r.error);
    run(&c, streamed, "1", &apart, &r); /* or they wait for each other, each in another stream */
    ok(r.err == -EPROTO || (r.err == -ETIMEDOUT && !strcmp(stage, "3")),
       "stage %s: ranks that go apart hear so", stage);
    diag("%d %s", r.err, r.error);
}

/* ---- A stream without room ------------------------------------------------------------------- */

static int (*record)(struct zero_device *dev, void *event, void *stream);
static struct zero_runtime *_Atomic looked_at;
static atomic_int n_free, n_taken; /* was the lock to be had when a use's event was recorded? */

/* What the progress thread records on its lanes is bounded, and it may hold the lock. */
static int record_slowly(struct zero_device *dev, void *event, void *stream)
{
    struct zero_runtime *rt = atomic_load(&looked_at);
    int taken = dev == rt->site.dev;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        taken &= rt->run->lanes[q].stream != stream;
    if (!taken)
        return record(dev, event, stream);
    for (int i = 0; i < 1000 && taken; i++) {
        taken = pthread_mutex_trylock(&rt->run->lock) != 0;
        if (taken)
            usleep(1000);
    }
    if (!taken)
        pthread_mutex_unlock(&rt->run->lock);
    atomic_fetch_add(taken ? &n_taken : &n_free, 1);
    return record(dev, event, stream);
}

static void look_on(struct zero_runtime *rt, int rank, void *arg)
{
    (void)arg;
    if (rank)
        return;
    atomic_store(&looked_at, rt);
    record = rt->site.dev_ops.event_record;
    rt->site.dev_ops.event_record = record_slowly;
}

/* Recording waits where a stream is full: meanwhile the step's collectives, and its end, go on. */
static void no_room(void)
{
    struct config c = {"3", "1", "auto", 2, TOY_STREAM, ZERO_BF16, NULL, NULL};
    struct toy with = {.steps = 2, .registered = look_on};
    struct toy_result r;

    run(&c, streamed, "20", &with, &r);
    ok(!r.err && r.agree && atomic_load(&n_free) > 0 && !atomic_load(&n_taken),
       "who releases a unit on a full stream waits alone");
    diag("%d events of uses, %d of them with the lock held: %s", n_free + n_taken, n_taken,
         r.error);
}

/* ---- A collective that is given up ----------------------------------------------------------- */

#define UNITS 4
#define EVALUATIONS 3

struct given_up {
    pthread_t thread;
    int rank, err, n_wrong; /* n_wrong: of values that an acquire gave */
    const char *job;
    char error[256];
};

/* The values of a unit are its number and one more, so that those of another one are seen. */
static int unit_look(struct zero_runtime *rt, uint32_t unit, void *stream, int *n_wrong)
{
    TRY(zero_acquire(rt, unit, ZERO_FORWARD, stream));
    const float *w = zero_param(rt, unit);
    for (int i = 0; w && i < ELEMENTS; i++)
        if (w[i] != (float)(unit + 1)) {
            ++*n_wrong;
            break;
        }
    return zero_release(rt, unit, ZERO_FORWARD, stream);
}

static int given_up_run(struct given_up *g, struct zero_runtime **rt)
{
    static const struct zero_setting s[] = {
        {"comm", streamed}, {"timeout", "20"}, {"stage", "3"}, {"threads", "1"}, {"map", "0"}};
    struct zero_config c = ZERO_CONFIG_INIT;
    static float values[2][ELEMENTS];
    char names[UNITS][8];
    uint32_t unit, param;
    void *stream;

    c.settings = s;
    c.n_settings = 5;
    c.rank = g->rank;
    c.ranks = c.local_ranks = 2;
    c.job = g->job;
    TRY(zero_create(&c, rt));
    for (int u = 0; u < UNITS; u++) {
        struct zero_param_desc d = {
            .size = sizeof d, .name = names[u], .dtype = ZERO_F32, .n_dims = 1, .dims = {ELEMENTS}};
        snprintf(names[u], sizeof names[u], "unit%d", u);
        TRY(zero_unit_add(*rt, names[u], &unit));
        TRY(zero_param_add(*rt, unit, &d, &param));
    }
    TRY(zero_commit(*rt));
    TRY(zero_stream_create(*rt, &stream));
    for (uint32_t p = 0; p < UNITS; p++) {
        for (int i = 0; i < ELEMENTS; i++)
            values[g->rank][i] = (float)(p + 1);
        TRY(zero_param_write(*rt, p, 0, ELEMENTS, values[g->rank]));
    }
    for (int k = 0; k < EVALUATIONS; k++) {
        TRY(zero_begin(*rt, ZERO_EVAL, 0));
        for (unit = 0; unit < UNITS; unit++)
            TRY(unit_look(*rt, unit, stream, &g->n_wrong));
    }
    return zero_begin(*rt, ZERO_EVAL, 0); /* the end of the last one */
}

static void *given_up_main(void *arg)
{
    struct given_up *g = arg;
    struct zero_runtime *rt = NULL;

    g->err = given_up_run(g, &rt);
    snprintf(g->error, sizeof g->error, "%s", zero_last_error());
    zero_destroy(rt);
    return NULL;
}

/* A stream goes on behind a collective that was given up: nobody takes what is there for values. */
static void given_up(void)
{
    int n_failed = 0, n_wrong = 0, n_odd = 0;
    struct given_up g[2];
    char job[64], fails[8];

    for (int n = 1; n <= UNITS * EVALUATIONS; n++) {
        snprintf(job, sizeof job, "streams-given-up-%d-%d", n, (int)getpid());
        snprintf(fails, sizeof fails, "%d", n);
        setenv("ZERO_STREAMED_PLUGIN", shm, 1);
        setenv("ZERO_STREAMED_FAILS", fails, 1);
        for (int i = 0; i < 2; i++) {
            g[i] = (struct given_up){.rank = i, .job = job};
            pthread_create(&g[i].thread, NULL, given_up_main, &g[i]);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(g[i].thread, NULL);
            n_wrong += g[i].n_wrong;
        }
        n_failed += g[1].err == -EIO;
        n_odd += (g[0].err != 0) != (g[1].err != 0);
    }
    unsetenv("ZERO_STREAMED_PLUGIN");
    unsetenv("ZERO_STREAMED_FAILS");
    ok(n_failed > UNITS && !n_odd, "a rank whose collective is given up ends, and the other one");
    ok(!n_wrong, "and no unit is held with what was never gathered");
    diag("%d of %d failed, %d wrong, %d alone; last %s", n_failed, UNITS * EVALUATIONS, n_wrong,
         n_odd, g[1].error);
}

/* ---- An end while a stream works ------------------------------------------------------------- */

struct ends {
    pthread_t thread;
    int rank, err; /* err: of the runtime, which the other rank has ended */
    char job[64];
};

static atomic_int reading, has_read;

static void read_long(void *arg)
{
    const volatile float *w = arg;

    atomic_store(&reading, 1);
    for (int i = 0; i < READ_MS; i++) {
        (void)w[i * (ELEMENTS / READ_MS)];
        usleep(1000);
    }
    atomic_store(&has_read, 1);
}

static int ends_run(struct ends *e, struct zero_runtime **rt)
{
    struct zero_setting s[] = {
        {"comm", mem}, {"timeout", "20"}, {"threads", "1"}};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_param_desc d = {
        .size = sizeof d, .name = "w", .dtype = ZERO_F32, .n_dims = 1, .dims = {ELEMENTS}};
    void *stream;
    uint32_t unit, param;

    c.settings = s;
    c.n_settings = 3;
    c.rank = e->rank;
    c.ranks = c.local_ranks = 2;
    c.job = e->job;
    TRY(zero_create(&c, rt));
    TRY(zero_unit_add(*rt, "unit", &unit));
    TRY(zero_param_add(*rt, unit, &d, &param));
    TRY(zero_commit(*rt));
    TRY(zero_stream_create(*rt, &stream));
    TRY(zero_begin(*rt, ZERO_TRAIN, 1));
    TRY(zero_acquire(*rt, unit, ZERO_FORWARD, stream));
    if (e->rank == 0) {
        void *w = (void *)(uintptr_t)zero_param(*rt, param);
        TRY(zero_stream_call(*rt, stream, read_long, w));
        e->err = zero_barrier(*rt);
        return 0;
    }
    while (!atomic_load(&reading))
        usleep(1000);
    return zero_abort(*rt, "the test ends it");
}

static void *ends_main(void *arg)
{
    struct ends *e = arg;
    struct zero_runtime *rt = NULL;
    int err = ends_run(e, &rt);

    if (err) {
        diag("rank %d: %s", e->rank, zero_last_error());
        atomic_store(&reading, 1); /* nobody waits for it */
    }
    zero_destroy(rt);
    return NULL;
}

/* A transport that allocates nothing: what it moves is memory of the device, whose end that is. */
static void ends_at_work(void)
{
    struct ends e[2];

    for (int i = 0; i < 2; i++) {
        e[i] = (struct ends){.rank = i};
        snprintf(e[i].job, sizeof e[i].job, "streams-end-%d", (int)getpid());
        pthread_create(&e[i].thread, NULL, ends_main, &e[i]);
    }
    pthread_join(e[0].thread, NULL);
    ok(e[0].err == -ECANCELED && atomic_load(&has_read),
       "memory that a stream reads stays until it has read it, after an error, too");
    pthread_join(e[1].thread, NULL);
}

int main(void)
{
    static const struct config more[] = {
        {"3", "3", "micro", 2, TOY_TIED | TOY_RECOMPUTE, ZERO_F32, NULL, NULL},
        {"3", "3", "boundary", 3, TOY_PERSISTENT | TOY_FROZEN, ZERO_BF16, NULL, NULL},
        {"2", "3", "micro", 3, TOY_TIED, ZERO_BF16, "bucket_bytes", "4K"},
        {"1", "3", "boundary", 2, TOY_UNUSED, ZERO_BF16, NULL, NULL},
        {"3", "1", "auto", 2, TOY_STREAM | TOY_EVAL, ZERO_BF16, "prefetch_bytes", "8K"},
        {"3", "1", "auto", 2, 0, ZERO_F32, "prefetch_bytes", "0"},
        {"1", "1", "auto", 3, TOY_STREAM | TOY_TIED, ZERO_F32, NULL, NULL},
        {"3", "1", "auto", 3, TOY_STREAM | TOY_RECOMPUTE | TOY_EVAL, ZERO_BF16, "map", "1"},
        {"3", "1", "auto", 2, TOY_REORDER, ZERO_BF16, NULL, NULL},
        {"2", "3", "micro", 2, TOY_REORDER | TOY_STREAM | TOY_ANNOUNCE, ZERO_F32, NULL, NULL},
        {"3", "1", "auto", 2, TOY_SKIP, ZERO_BF16, NULL, NULL},
        {"3", "1", "auto", 2, TOY_NAN, ZERO_F16, NULL, NULL},
        {"2", "1", "auto", 2, 0, ZERO_BF16, "offload", "optimizer:cpu"},
        {"3", "1", "auto", 2, TOY_STREAM, ZERO_BF16, "offload", "optimizer:cpu,parameters:cpu"},
        {"2", "1", "auto", 2, TOY_ACTIVATIONS | TOY_STREAM, ZERO_F32, "offload", "activations:cpu"},
    };
    static const char *const stages[] = {"0", "1", "2", "3"};
    const char *build = getenv("ZERO_TEST_BUILD");

    alarm(240);
    snprintf(streamed, sizeof streamed, "%s/tests/plugin/.libs/zero-comm-streamed.so",
             build ? build : ".");
    snprintf(shm, sizeof shm, "%s/.libs/zero-comm-shm.so", build ? build : ".");
    snprintf(mem, sizeof mem, "%s/tests/plugin/.libs/zero-comm-mem.so", build ? build : ".");
    for (int i = 0; i < 4; i++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            struct config c = {stages[i], "1", "auto", ranks, 0, ZERO_BF16, NULL, NULL};
            same(&c);
            c.flags = TOY_STREAM;
            same(&c);
        }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        same(&more[i]);
    same(&crowded);
    long_job();
    no_room();
    failures("3");
    failures("1");
    given_up();
    ends_at_work();
    done();
}
