/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training over the plugin nccl and a library that the tests made, two ranks as threads: the same
 * bits as over shm, whose order a sum of two does not depend on; and every call of NCCL and of the
 * driver fails in turn, at once or later: the error is named, nothing hangs, nothing is left.
 */
#include "../tap.h"

#include <errno.h>
#include <unistd.h>

#include "nccl.h"
#include "nccl_calls.h"
#include "toy.h"
#undef want

static char plugin[4096], shm[4096];

struct config {
    const char *stage, *accum;
    int ranks;
    uint32_t flags, dtype;
    const char *name, *value; /* one more setting, or NULL */
};

static int run(const struct config *c, const char *comm, const char *timeout,
               const struct toy *with, struct toy_result *r)
{
    struct zero_setting s[] = {{"stage", c->stage},     {"accum", c->accum},  {"clip", "0.5"},
                               {"lr", "0.01"},          {"timeout", timeout}, {"comm", comm},
                               {"numerics", "relaxed"}, {c->name, c->value}};
    struct toy t = *with;

    if (comm == plugin) {
        fake_nccl_choose("libnccl");
    } else {
        unsetenv("ZERO_NCCL_LIBRARY");
        unsetenv("ZERO_CUDA_LIBRARY");
    }
    t.ranks = c->ranks;
    t.dtype = c->dtype;
    t.flags |= c->flags;
    t.width = 1500;
    t.settings = s;
    t.n_settings = c->name ? 8 : 7;
    t.seed = 11;
    return toy_train(&t, r);
}

static void left(const char *what)
{
    char text[400] = "";
    int n = fake_nccl()->live(), bad = fake_nccl()->misused(text, sizeof text);

    if (n || bad)
        ok(false, "%s: %d things are left, bad usage %d: %s", what, n, bad, text);
}

static void same(const struct config *c, const char *slow)
{
    struct toy with = {.layers = 5, .steps = 5};
    struct toy_result plain, r, again;

    run(c, shm, "20", &with, &plain);
    if (slow)
        setenv("FAKE_NCCL_SLOW", slow, 1);
    run(c, plugin, "20", &with, &r);
    run(c, plugin, "20", &with, &again);
    unsetenv("FAKE_NCCL_SLOW");
    ok(!plain.err && !r.err && !again.err && r.agree && again.agree && r.hash == again.hash &&
           (r.hash == plain.hash || c->ranks > 2) && r.info.wire_bytes == plain.info.wire_bytes,
       "stage %s, %d ranks, %s, %s micro-batches%s%s, flags %x", c->stage, c->ranks,
       zero_dtype_name(c->dtype), c->accum, c->name ? ", " : "", c->name ? c->name : "", c->flags);
    if (plain.err || r.err || again.err)
        diag("%s", plain.err ? plain.error : r.err ? r.error : again.error);
    else
        diag("hash %016" PRIx64 ", over nccl %016" PRIx64 " and %016" PRIx64 ", agree %d; wire "
             "%" PRIu64 " and %" PRIu64,
             plain.hash, r.hash, again.hash, r.agree, plain.info.wire_bytes, r.info.wire_bytes);
    left("after that");
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

static void delays(void)
{
    struct config c = {"3", "1", 2, 0, ZERO_F32, NULL, NULL};
    struct toy late = {.layers = 5, .steps = 4, .stepped = linger},
               plain = {.layers = 5, .steps = 4},
               ends = {.layers = 5, .steps = 4, .stepped = end_it};
    struct toy_result r;

    run(&c, plugin, "0.7", &late, &r);
    ok(r.err == -ETIMEDOUT && strstr(r.error, "0.7 s (ZERO_TIMEOUT)"),
       "a rank that does not come is noticed");
    diag("%d %s", r.err, r.error);
    left("after that");
    /* As where NCCL connects in it, and a peer does not come: it stays in progress. */
    fake_nccl()->fail(1, "GroupEnd", 3, NCCL_IN_PROGRESS, true);
    run(&c, plugin, "1", &plain, &r);
    ok(fake_nccl()->has_failed() && r.err == -ETIMEDOUT && strstr(r.error, "gather of layer") &&
           strstr(r.error, "1 s (ZERO_TIMEOUT)"),
       "a launch that does not end is told as its operation");
    diag("%d %s", r.err, r.error);
    fake_nccl()->fail(1, "", 0, 0, false);
    left("after that");
    run(&c, plugin, "20", &ends, &r);
    ok(r.err == -ECANCELED && strstr(r.error, "the test ends it"),
       "an abort ends what waits in streams");
    diag("%d %s", r.err, r.error);
    left("after that");
}

static const struct config failing[] = {
    {"3", "1", 2, 0, ZERO_BF16, NULL, NULL},
    {"1", "1", 2, 0, ZERO_BF16, NULL, NULL},
};

/* A failure of a run, and what became of it: each in a process, for they wait more than they do. */
struct attempt {
    const struct call *call;
    const struct config *config;
    unsigned k;
    bool later, failed;
    pid_t pid;
    int status, left, misused;
    int64_t ms;
    struct toy_result r;
    char misuse[200];
};

#define MOST_ATTEMPTS 600
#define AT_ONCE 8
#define MANY 100 /* calls that ask, again and again: another run may have fewer */

static struct attempt *attempts;
static int n_attempts;

static void attempt(struct attempt *a)
{
    struct toy with = {.layers = 3, .steps = 2};
    const struct call *call = a->call;
    int64_t began = now_ms();

    fake_nccl()->fail(call->rank, call->name, a->k,
                      strncmp(call->name, "cu", 2) == 0 ? 999 : NCCL_SYSTEM_ERROR, a->later);
    run(a->config, plugin, "10", &with, &a->r);
    a->ms = now_ms() - began;
    a->failed = fake_nccl()->has_failed();
    a->left = fake_nccl()->live();
    a->misused = fake_nccl()->misused(a->misuse, sizeof a->misuse);
    fake_nccl()->fail(1, "", 0, 0, false);
}

static void attempt_start(struct attempt *a)
{
    if (!RANKS_PROCESSES) {
        attempt(a);
        return;
    }
    fflush(stdout);
    pid_t pid = fork(); /* the child writes into *a, too */
    if (pid < 0)
        bail("cannot fork");
    if (pid == 0) {
        alarm(60);
        attempt(a);
        _exit(0);
    }
    a->pid = pid;
}

static void attempt_judge(struct attempt *a)
{
    const struct call *call = a->call;
    bool says, good;

    if (a->pid)
        waitpid(a->pid, &a->status, 0);
    /* A peer may be faster with what it makes of the error, which has the sentence, too. */
    says = a->r.err && a->r.err != -ETIMEDOUT &&
           (strstr(a->r.error, call->says) ||
            strstr(a->r.error, "failed on rank 1, which says why"));
    good = call->harm == NONE ? !a->r.err : says;
    if (call->harm == EITHER && a->k > 1)
        good = says || !a->r.err;
    good = good && !a->status && a->failed && a->ms < 8000 && !a->left && !a->misused;
    ok(good, "stage %s, call %u of %s%s: %s", a->config->stage, a->k, call->name,
       a->later ? ", later" : "", a->r.err ? "an error that says so" : "no harm");
    if (!good)
        diag("status %d, failed %d, %d ms, %d are left, bad usage %d %s; %d %s", a->status,
             a->failed, (int)a->ms, a->left, a->misused, a->misuse, a->r.err, a->r.error);
}

static void attempts_add(const struct call *call, const struct config *c, unsigned n)
{
    n = n < MANY ? n : MANY;
    const unsigned midst = n == MANY ? 32 : n / 2; /* 32 is tried, see below */
    for (int later = 0; later <= call->lingers; later++)
        for (unsigned k = 1; k <= n && n_attempts < MOST_ATTEMPTS; k += n == MANY ? k : 1)
            if (later ? k == 1 || k == midst : RANKS_PROCESSES || k == 1)
                attempts[n_attempts++] =
                    (struct attempt){.call = call, .config = c, .k = k, .later = later};
}

/* Every call of a good run, and those that it does not make. */
static void attempts_plan(const struct config *c)
{
    struct toy with = {.layers = 3, .steps = 2};
    struct toy_result r;

    fake_nccl()->fail(1, "", 0, 0, false);
    run(c, plugin, "10", &with, &r);
    ok(!r.err, "stage %s: a good run", c->stage);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct call *call = &calls[i];
        unsigned n = fake_nccl()->calls(call->rank, call->name);
        if (!n != (call->harm == UNMET))
            ok(false, "stage %s: a good run makes %u calls of %s", c->stage, n, call->name);
        /* In another stage what moves data is enough. */
        if (c == failing || strcmp(call->says, "all_gather") == 0 || strstr(call->says, "reduce"))
            attempts_add(call, c, call->harm == UNMET ? 0 : n);
    }
}

static void fail_each(void)
{
    ok(calls_are_listed(), "all calls of the plugin are listed");
    setenv("ZERO_NCCL_STAGING", "65536", 1); /* it takes its time to come, and is not the point */
    attempts = shared_memory(MOST_ATTEMPTS * sizeof *attempts);
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
        attempts_plan(&failing[i]);
    for (int i = 0; i < n_attempts + AT_ONCE; i++) {
        if (i < n_attempts)
            attempt_start(&attempts[i]);
        if (i >= AT_ONCE)
            attempt_judge(&attempts[i - AT_ONCE]);
    }
    unsetenv("ZERO_NCCL_STAGING");
}

/* An abort that NCCL reports a failure of is one all the same. */
static void abort_fails(void)
{
    struct config c = {"3", "1", 2, 0, ZERO_F32, NULL, NULL};
    struct toy ends = {.layers = 5, .steps = 4, .stepped = end_it};
    struct toy_result r;

    for (unsigned k = 1; k <= 2; k++) {
        fake_nccl()->fail(1, "CommAbort", k, NCCL_SYSTEM_ERROR, false);
        run(&c, plugin, "20", &ends, &r);
        ok(fake_nccl()->has_failed() && r.err == -ECANCELED && strstr(r.error, "the test ends it"),
           "call %u of CommAbort: no harm", k);
        fake_nccl()->fail(1, "", 0, 0, false);
        left("after that");
    }
}

/* After a step: no thread gets the device's context any more. */
static void context_goes(struct zero_runtime *rt, int rank, int step,
                         const struct zero_step_info *info, void *arg)
{
    (void)rt, (void)info;
    if (rank == 1 && step == 0)
        fake_nccl()->fail_from(1, "cuCtxPushCurrent", *(unsigned *)arg, 999);
}

/* The end of a communicator cannot enter it either: it ends all the same, and the job. */
static void context_lost(unsigned k)
{
    struct config c = {"3", "1", 2, 0, ZERO_BF16, NULL, NULL};
    struct toy with = {.layers = 3, .steps = 20, .stepped = context_goes, .arg = &k};
    struct toy_result r;
    char what[64];

    run(&c, plugin, "10", &with, &r);
    fake_nccl()->fail(1, "", 0, 0, false);
    ok(r.err && strstr(r.error, "context cannot be made current"),
       "a context that is lost from its use %u on: an error that says so", k);
    diag("%d %s", r.err, r.error);
    snprintf(what, sizeof what, "a context that is lost from its use %u on", k);
    left(what);
}

int main(void)
{
    static const struct config more[] = {
        {"3", "3", 2, TOY_TIED | TOY_RECOMPUTE, ZERO_F32, NULL, NULL},
        {"2", "3", 2, TOY_TIED, ZERO_BF16, "bucket_bytes", "4K"},
        {"3", "1", 2, TOY_STREAM | TOY_EVAL, ZERO_BF16, "prefetch_bytes", "8K"},
        {"1", "1", 2, TOY_STREAM | TOY_TIED, ZERO_F16, NULL, NULL},
        {"3", "1", 3, TOY_STREAM, ZERO_BF16, NULL, NULL},
        {"2", "1", 2, 0, ZERO_BF16, "offload", "optimizer:cpu"},
        {"3", "3", 4, TOY_TIED, ZERO_BF16, NULL, NULL},
    };
    static const char *const stages[] = {"0", "1", "2", "3"};
    const char *build = getenv("ZERO_TEST_BUILD");

    alarm(600);
    fake_nccl_choose("libnccl");
    snprintf(plugin, sizeof plugin, "%s/tests/fake/nccl/.libs/zero-comm-nccl.so",
             build ? build : ".");
    snprintf(shm, sizeof shm, "%s/.libs/zero-comm-shm.so", build ? build : ".");
    for (int i = 0; i < 4; i++) {
        struct config c = {stages[i], "1", 2, i % 2 ? TOY_STREAM : 0, i == 1 ? ZERO_F32 : ZERO_BF16,
                           NULL,      NULL};
        same(&c, i % 2 ? "5" : NULL);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        same(&more[i], i % 2 ? NULL : "9");
    setenv("ZERO_NCCL_REGISTER", "0", 1);
    same(&more[0], "3");
    unsetenv("ZERO_NCCL_REGISTER");
    setenv("FAKE_NCCL_VERSION", "22203", 1); /* a call that goes on is its thread's */
    same(&more[0], "4");
    unsetenv("FAKE_NCCL_VERSION");
    delays();
    fail_each();
    abort_fails();
    context_lost(1);
    context_lost(4);
    context_lost(30);
    done();
}
