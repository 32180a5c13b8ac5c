/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that dies or fails is named by all others within a second, and all report one record.
 */
#include "job.h"

#define ROUNDS 24

struct scene {
    char name[64];
    int victim;
    unsigned delay_us;
    atomic_int open;
    atomic_llong killed_ms;
    struct zero__job_error errors[RANKS_MAX];
    atomic_int called;
    int others; /* that had been called when rank 0's call returned */
};

static struct scene *scene;

static void fresh(int victim, unsigned delay_us)
{
    memset(scene, 0, sizeof *scene);
    snprintf(scene->name, sizeof scene->name, "%s", job_name());
    scene->victim = victim;
    scene->delay_us = delay_us;
}

static struct zero__job *open_scene(struct rank *r, int64_t timeout_ms)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, scene->name, 20000, timeout_ms);
    struct zero__job *job = NULL;
    int e = zero__job_open(&p, &job);

    want(r, !e, "open: %s", zero_last_error());
    return job;
}

/* Works until the job has an error; returns when this rank knows it. */
static void exchange_until_error(struct rank *r, struct zero__job *job)
{
    int32_t x = r->rank, all[RANKS_MAX];
    int e = 0;

    while (!(e = zero__job_allgather(job, &x, sizeof x, all)))
        ;
    want(r, e == zero__job_error(job, &scene->errors[r->rank]), "code %d differs", e);
}

static bool same_record(int n, int but)
{
    int first = but == 0;
    for (int i = 0; i < n; i++)
        if (i != but && memcmp(&scene->errors[i], &scene->errors[first], sizeof scene->errors[0]))
            return false;
    return true;
}

static void killed(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);
    char word[160];

    if (!job)
        return;
    if (r->rank == scene->victim) {
        int32_t x = 0, all[RANKS_MAX];
        int64_t end = zero__now_ns() + scene->delay_us * INT64_C(1000);
        while (zero__now_ns() < end && scene->delay_us % 2)
            zero__job_allgather(job, &x, sizeof x, all);
        usleep(scene->delay_us % 2 ? 0 : scene->delay_us);
        atomic_store(&scene->killed_ms, now_ms());
        kill(getpid(), SIGKILL);
    }
    exchange_until_error(r, job);
    r->value = now_ms() - atomic_load(&scene->killed_ms);
    snprintf(word, sizeof word, "rank %d failed: its process %d has ended without leaving the "
             "job: it was killed, or did not call zero_destroy()", scene->victim,
             (int)(r - r->rank + scene->victim)->pid);
    zero__job_report(job);
    want(r, strstr(zero_last_error(), word), "\"%s\"", zero_last_error());
    want(r, scene->errors[r->rank].culprit == scene->victim, "culprit");
    want(r, r->value < 1000, "after %d ms", (int)r->value);
    want(r, zero__job_close(job, 0) == -ECONNRESET, "close gives the error");
}

/* A grandchild holds the sockets of the dead rank open. */
static void killed_with_child(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);

    if (!job)
        return;
    if (r->rank == scene->victim) {
        if (fork() == 0) {
            sleep_ms(1500);
            _exit(0);
        }
        atomic_store(&scene->killed_ms, now_ms());
        kill(getpid(), SIGKILL);
    }
    exchange_until_error(r, job);
    r->value = now_ms() - atomic_load(&scene->killed_ms);
    want(r, scene->errors[r->rank].culprit == scene->victim, "culprit");
    want(r, r->value < 1000, "after %d ms", (int)r->value);
    zero__job_close(job, 0);
}

static void count_call(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Of rank 0: whatever it takes, the others hear of the error meanwhile. */
static void call_last(void *arg)
{
    for (int i = 0; i < 5000 && atomic_load((atomic_int *)arg) < 3; i++)
        sleep_ms(1);
    scene->others = atomic_load((atomic_int *)arg);
    count_call(arg);
}

static void *fail_it(void *arg)
{
    zero__job_fail(arg, 2, -EIO, "write", "disk full");
    return NULL;
}

/* Any thread of rank 1 reports; the callback is called once on every rank. */
static void aborted(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);
    pthread_t t[2];

    if (!job)
        return;
    zero__job_on_error(job, r->rank ? count_call : call_last, &scene->called);
    if (r->rank == scene->victim) {
        for (int i = 0; i < 2; i++)
            pthread_create(&t[i], NULL, fail_it, job);
        for (int i = 0; i < 2; i++)
            pthread_join(t[i], NULL);
    }
    exchange_until_error(r, job);
    zero__job_report(job);
    want(r, !strcmp(zero_last_error(), "rank 2 failed in write: disk full"), "\"%s\"",
         zero_last_error());
    want(r, scene->errors[r->rank].reporter == scene->victim, "reporter");
    want(r, zero__job_fail(job, 0, -EBUSY, "late", "too late") == -EBUSY, "fail returns its code");
    want(r, zero__job_close(job, 0) == -EIO, "close gives the error");
}

/* All ranks report at the same moment: one record wins, everywhere the same. */
static void race(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);
    char cause[32];

    if (!job)
        return;
    atomic_fetch_add(&scene->open, 1);
    while (atomic_load(&scene->open) < r->ranks)
        ;
    snprintf(cause, sizeof cause, "cause of rank %d", r->rank);
    zero__job_fail(job, r->rank, -EIO - r->rank, "race", cause);
    want(r, zero__job_error(job, &scene->errors[r->rank]) < 0, "no error");
    zero__job_close(job, 0);
}

/* Ranks call different things. */
static void mismatch(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);
    char x[64] = "", all[64 * RANKS_MAX];

    if (!job)
        return;
    if (r->rank == scene->victim)
        zero__job_allgather(job, x, 16, all);
    exchange_until_error(r, job);
    zero__job_report(job);
    want(r, strstr(zero_last_error(), "the same calls in the same order"), "\"%s\"",
         zero_last_error());
    want(r, strstr(zero_last_error(), "16"), "\"%s\"", zero_last_error());
    zero__job_close(job, 0);
}

/* One rank does not take part, and does not leave either. */
static void absent(struct rank *r)
{
    struct zero__job *job = open_scene(r, 300);

    if (!job)
        return;
    int64_t t = now_ms();
    if (r->rank == scene->victim)
        while (!zero__job_error(job, &scene->errors[r->rank]) && now_ms() - t < 5000)
            sleep_ms(5);
    else
        exchange_until_error(r, job);
    t = now_ms() - t;
    want(r, t < 2000, "after %d ms", (int)t);
    want(r, scene->errors[r->rank].culprit == scene->victim, "culprit %d",
         scene->errors[r->rank].culprit);
    want(r, scene->errors[r->rank].err == -ETIMEDOUT, "err %d", scene->errors[r->rank].err);
    zero__job_close(job, 0);
}

/*
 * While rank 0 weighs a deadline, one that comes late to an exchange is nobody's culprit. The pause
 * is shorter than it weighs; where it is longer, on a busy machine, the record is the same.
 */
static void late(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);

    if (!job)
        return;
    if (r->rank == scene->victim)
        zero__job_fail_at(job, 0, -ETIMEDOUT, 7, "gather of layer1 (#7)", "no answer of rank 0");
    else
        sleep_ms(30);
    if (r->rank == 1)
        exchange_until_error(r, job);
    else
        while (!zero__job_error(job, &scene->errors[r->rank]))
            sleep_ms(5);
    want(r, scene->errors[r->rank].culprit == 0, "culprit %d", scene->errors[r->rank].culprit);
    want(r, scene->errors[r->rank].err == -ETIMEDOUT, "err %d", scene->errors[r->rank].err);
    zero__job_close(job, 0);
}

/* Who waits in an operation and cannot say for whom says nothing about an exchange. */
static void whoever(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);

    if (!job)
        return;
    if (r->rank == scene->victim) {
        sleep_ms(100); /* a part of the exchange is there */
        zero__job_fail_at(job, -1, -ETIMEDOUT, 7, "gather of layer1 (#7)", "no answer");
    }
    if (r->rank == 1)
        exchange_until_error(r, job);
    else
        while (!zero__job_error(job, &scene->errors[r->rank]))
            sleep_ms(5);
    want(r, scene->errors[r->rank].culprit == -1, "culprit %d", scene->errors[r->rank].culprit);
    want(r, !strcmp(scene->errors[r->rank].cause, "no answer"), "\"%s\"",
         scene->errors[r->rank].cause);
    zero__job_close(job, 0);
}

/* A rank that left an operation out waited sooner than the others, and accuses one of them first.
 */
static void claims(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);

    if (!job)
        return;
    if (r->rank == scene->victim)
        zero__job_fail_at(job, 0, -ETIMEDOUT, 8, "reduce of layer1 (#8)", "no answer of rank 0");
    if (r->rank == 1) {
        sleep_ms(200);
        zero__job_fail_at(job, 2, -ETIMEDOUT, 7, "barrier (#7)", "no answer of rank 2");
    }
    while (!zero__job_error(job, &scene->errors[r->rank]))
        sleep_ms(5);
    want(r, scene->errors[r->rank].culprit == scene->victim, "culprit %d",
         scene->errors[r->rank].culprit);
    zero__job_close(job, 0);
}

/* What takes longer to weigh than a rank may be silent: who has said nothing still hears rank 0. */
static void weighed(struct rank *r)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, scene->name, 20000, 20000);
    struct zero__job *job = NULL;

    p.heartbeat_ns = ZERO_SECOND / 4;
    int e = zero__job_open(&p, &job);
    want(r, !e, "open: %s", zero_last_error());
    if (e)
        return;
    if (r->rank == 1)
        zero__job_fail_at(job, 2, -ETIMEDOUT, 7, "broadcast (#7)", "no answer of rank 2");
    while (!zero__job_error(job, &scene->errors[r->rank]))
        sleep_ms(5);
    want(r, scene->errors[r->rank].culprit == 2, "culprit %d: %s", scene->errors[r->rank].culprit,
         scene->errors[r->rank].cause);
    zero__job_close(job, 0);
}

/* Of two, rank 0 left an operation out, waits for the next exchange, and speaks first. */
static void accused(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);

    if (!job)
        return;
    if (r->rank == 0) {
        zero__job_fail_at(job, 1, -ETIMEDOUT, ZERO__PLACE_LAST, "exchange", "no part of rank 1");
    } else {
        sleep_ms(200);
        zero__job_fail_at(job, 0, -ETIMEDOUT, 7, "broadcast (#7)", "no answer of rank 0");
    }
    while (!zero__job_error(job, &scene->errors[r->rank]))
        sleep_ms(5);
    want(r, scene->errors[r->rank].culprit == 0, "culprit %d", scene->errors[r->rank].culprit);
    zero__job_close(job, 0);
}

/* One rank has left in peace while the others go on. */
static void left(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);

    if (!job)
        return;
    if (r->rank == scene->victim) {
        zero__job_close(job, 1);
        return;
    }
    exchange_until_error(r, job);
    want(r, scene->errors[r->rank].err == -ESHUTDOWN, "err %d", scene->errors[r->rank].err);
    want(r, scene->errors[r->rank].culprit == scene->victim, "culprit %d",
         scene->errors[r->rank].culprit);
    zero__job_close(job, 0);
}

/* A rank that reports and leaves at once hears what the job decides, and does not wait in vain. */
static void fail_and_leave(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);
    int e;

    if (!job)
        return;
    if (r->rank == scene->victim) {
        zero__job_fail(job, 1, -EIO, "write", "disk full");
        r->value = now_ms();
        e = zero__job_close(job, 0);
        r->value = now_ms() - r->value;
        want(r, e == -EIO && r->value < 1000, "close: %d after %d ms", e, (int)r->value);
        return;
    }
    exchange_until_error(r, job);
    want(r, scene->errors[r->rank].err == -EIO, "err %d", scene->errors[r->rank].err);
    zero__job_close(job, 0);
}

/* Rank 0 cannot decide any more: it is stopped, and then it dies. Rank 1 waits, and leaves. */
static void fail_without_zero(struct rank *r)
{
    struct zero__job *job = open_scene(r, 20000);
    pid_t zero = (r - r->rank)->pid;
    int e;

    if (!job)
        return;
    if (r->rank == 0) {
        atomic_store(&scene->open, 1);
        raise(SIGSTOP);
        return;
    }
    while (!atomic_load(&scene->open))
        sleep_ms(1);
    sleep_ms(50);
    if (r->rank == 2) {
        sleep_ms(200);
        kill(zero, SIGKILL);
        exchange_until_error(r, job);
    }
    r->value = now_ms();
    if (r->rank == 1)
        zero__job_fail(job, 1, -EIO, "write", "disk full");
    e = zero__job_close(job, 0);
    r->value = now_ms() - r->value;
    want(r, e == (r->rank == 1 ? -EIO : -ECONNRESET), "close: %d %s", e, zero_last_error());
    want(r, r->value < 1000, "after %d ms", (int)r->value);
}

static void check(int n, enum ranks_how how, void (*fn)(struct rank *), int but, const char *what)
{
    struct rank *all = ranks_run(n, how, fn, NULL);
    if (but >= 0 && how == AS_PROCESSES && WIFSIGNALED(all[but].status))
        all[but].status = 0;
    ranks_good(all, n, "%s, %s", what, ranks_how_name[how]);
    if (!ok(same_record(n, but), "one record everywhere"))
        for (int i = 0; i < n; i++)
            diag("rank %d: culprit %d, err %d, by %d, \"%s\" \"%s\"", i, scene->errors[i].culprit,
                 scene->errors[i].err, scene->errors[i].reporter, scene->errors[i].op,
                 scene->errors[i].cause);
}

static void kills(void)
{
    unsigned seed = 2024;
    int64_t worst = 0;
    bool good = true;

    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245u + 12345u;
        fresh(i % 4, (seed >> 16) % 20000);
        struct rank *all = ranks_run(4, AS_PROCESSES, killed, NULL);
        all[scene->victim].status = 0;
        for (int k = 0; k < 4; k++) {
            good &= all[k].bad == 0 && all[k].status == 0;
            worst = k != scene->victim && all[k].value > worst ? all[k].value : worst;
            if (all[k].bad)
                diag("kill %d: %s", i, all[k].text[0]);
        }
        good &= same_record(4, scene->victim);
    }
    ok(good, "%d kills: all others name the rank within a second, in one record", ROUNDS);
    diag("slowest after %d ms", (int)worst);
}

static void processes_end(void)
{
    fresh(1, 0);
    ranks_good(ranks_run(3, AS_PROCESSES, fail_and_leave, NULL), 3, "who reports may leave");
    fresh(0, 0);
    struct rank *all = ranks_run(3, AS_PROCESSES, fail_without_zero, NULL);
    all[0].status = 0;
    ranks_good(all, 3, "who reports does not wait for a rank 0 that died");
    fresh(2, 0);
    check(4, AS_PROCESSES, killed_with_child, 2, "a child of the dead rank hides nothing");
    fresh(0, 0);
    check(4, AS_PROCESSES, killed_with_child, 0, "nor does one of rank 0");
}

static void each_way(enum ranks_how how)
{
    for (int v = 0; v < 2; v++) {
        fresh(v, 0);
        check(4, how, aborted, -1, v ? "rank 1 reports" : "rank 0 reports");
        is_int(atomic_load(&scene->called), 4, "on_error was called once per rank");
        is_int(scene->others, 3, "the others did not wait for rank 0's call");
    }
    for (int i = 0; i < 10; i++) {
        fresh(-1, 0);
        check(4, how, race, -1, "all report at once");
    }
    fresh(2, 0);
    check(3, how, late, -1, "late to an exchange while a deadline is weighed");
    fresh(2, 0);
    check(3, how, whoever, -1, "the deadline of an operation while ranks exchange");
    fresh(2, 0);
    check(3, how, claims, -1, "the deadline of what comes first is believed");
    fresh(-1, 0);
    check(2, how, accused, -1, "who is accused is heard");
    fresh(-1, 0);
    check(3, how, weighed, -1, "who weighs a deadline is not silent");
    for (int v = 0; v < 3; v += 2) {
        fresh(v, 0);
        check(3, how, mismatch, -1, "calls that differ");
        fresh(v, 0);
        check(3, how, absent, -1, "a rank that does not take part");
        fresh(v, 0);
        check(3, how, left, v, "a rank that left");
    }
}

int main(void)
{
    scene = shared_memory(sizeof *scene);
    kills();
    processes_end();
    each_way(AS_THREADS);
    each_way(AS_PROCESSES);
    done();
}
