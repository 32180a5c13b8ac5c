/* SPDX-License-Identifier: Apache-2.0 */
/* One job with one fault, and what its ranks make of it. */
#include "ranks.h"

#include <limits.h>

#include "faults.h"
#include "toy.h"

#define POLL_MS 2
#define LEAVE_MS 10000 /* for a rank that was stopped and may go on */
/* Elements: a part of it for each rank of the most is more than what a sum has buffers for. */
#define TABLE (UINT64_C(1) << 20)

/* A rank's own account, in memory that all share. */
struct seat {
    _Atomic int64_t injected_ms, failed_ms;
    atomic_int n_steps, finished, ended;
    int err;
    char error[512];
    double norms[FAULTS_STEPS];
    uint64_t hash;
    pid_t pid;
    bool gone;
    int status;
};

static struct seat *seats;

/* ---- A rank ---------------------------------------------------------------------------------- */

/* The plugin warns before it does something. */
static void log_line(void *arg, int level, const char *line)
{
    struct seat *s = arg;

    (void)level;
    if (strstr(line, ": fault: ") && strstr(line, ", at ") && !atomic_load(&s->injected_ms))
        atomic_store(&s->injected_ms, now_ms());
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct seat *s = arg;

    (void)rt, (void)rank;
    if (step < FAULTS_STEPS)
        s->norms[step] = info->grad_norm;
    atomic_store(&s->n_steps, step + 1);
}

static void finished(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rt, (void)rank;
    atomic_store(&((struct seat *)arg)->finished, 1);
}

static void failed(int rank, int err, const char *error, void *arg)
{
    struct seat *s = arg;

    (void)rank;
    s->err = err;
    snprintf(s->error, sizeof s->error, "%s", error);
    atomic_store(&s->failed_ms, now_ms());
}

/* As a program does: libraries have a last word in exit(). The sanitizer of leaks would, too. */
static void leave(void)
{
#ifndef __SANITIZE_ADDRESS__
    fflush(NULL);
    exit(0);
#endif
}

static void rank_main(int rank, const struct faults_case *c, const struct faults_times *times,
                      const char *job)
{
    const struct faults_kind *k = &faults_kinds[c->kind];
    bool outside = faults_signal(c) != 0, endless = outside && k->phase != FAULTS_SHUTDOWN;
    char timeout[16], join[16] = "auto";
    const struct zero_setting settings[] = {
        {"comm", outside ? faults_comms[c->comm].plugin : *c->fault ? "fault" : "shm"},
        {"stage", c->stage},
        {"timeout", timeout},
        {"threads", "1"},
        {"join_timeout", join},
        {"heartbeat", times->heartbeat},
    };
    struct toy t = {.ranks = c->ranks,
                    .layers = 4,
                    .steps = endless ? INT_MAX : FAULTS_STEPS,
                    .dtype = ZERO_BF16,
                    .width = 3000,
                    .table = c->large ? TABLE : 0,
                    .settings = settings,
                    .n_settings = times->heartbeat ? 6 : 5,
                    .seed = 1,
                    .stepped = stepped,
                    .finished = finished,
                    .failed = failed,
                    .log = log_line,
                    .arg = &seats[rank]};
    struct toy_result r;

    if (!outside) { /* a program cannot know what plugins are asked for */
        setenv("ZERO_FAULT", c->fault, 1);
        setenv("ZERO_FAULT_COMM", faults_comms[c->comm].plugin, 1);
    }
    if (faults_comms[c->comm].variable)
        setenv(faults_comms[c->comm].variable, faults_comms[c->comm].value, 1);
    snprintf(timeout, sizeof timeout, "%d", times->timeout_s);
    if (outside)
        snprintf(join, sizeof join, "%d", FAULTS_JOIN_S);
    toy_rank(&t, rank, job, &r);
    seats[rank].hash = r.hash;
    atomic_store(&seats[rank].ended, 1);
    if (outside)
        leave();
    _exit(0);
}

/* ---- The job, from outside ------------------------------------------------------------------- */

static void job_start(const struct faults_case *c, const struct faults_times *times)
{
    static int number;
    char job[64];

    if (!seats)
        seats = shared_memory(FAULTS_RANKS * sizeof *seats);
    memset(seats, 0, FAULTS_RANKS * sizeof *seats);
    snprintf(job, sizeof job, "faults-%d-%d", (int)getpid(), number++);
    fflush(NULL);
    for (int i = 0; i < c->ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            bail("cannot fork");
        if (pid == 0)
            rank_main(i, c, times, job);
        seats[i].pid = pid;
    }
}

/* Waits until all ranks but one, or all, have gone; false: they have not by then. */
static bool job_wait(const struct faults_case *c, int but, int64_t until)
{
    for (;;) {
        bool all = true;
        for (int i = 0; i < c->ranks; i++) {
            struct seat *s = &seats[i];
            if (!s->gone && waitpid(s->pid, &s->status, WNOHANG) == s->pid)
                s->gone = true;
            all &= s->gone || i == but;
        }
        if (all || now_ms() >= until)
            return all;
        sleep_ms(POLL_MS);
    }
}

/* The signal from outside, when the victim is so far. */
static void job_strike(const struct faults_case *c)
{
    const struct faults_kind *k = &faults_kinds[c->kind];
    const struct timespec moment = {0, (long)c->delay_us * 1000}, look = {0, 100000};
    struct seat *s = &seats[c->victim];
    int64_t until = now_ms() + FAULTS_HANG_MS / 2;

    while (now_ms() < until && !atomic_load(&s->failed_ms) &&
           !(k->phase == FAULTS_INIT || atomic_load(k->phase == FAULTS_OPERATION ? &s->n_steps
                                                                               : &s->finished)))
        nanosleep(&look, NULL);
    nanosleep(&moment, NULL);
    if (now_ms() < until && !atomic_load(&s->failed_ms) && !kill(s->pid, faults_signal(c)))
        atomic_store(&s->injected_ms, now_ms());
}

static void job_kill(const struct faults_case *c)
{
    for (int i = 0; i < c->ranks; i++)
        if (!seats[i].gone)
            kill(seats[i].pid, SIGKILL);
    job_wait(c, -1, INT64_MAX);
}

/* ---- What is right --------------------------------------------------------------------------- */

struct reference {
    bool known;
    double norms[FAULTS_STEPS];
    uint64_t hash;
};

/* Of a job without a fault. Stage and transport make no difference, so they do not count. */
static const struct reference *reference_of(int ranks, bool large)
{
    static struct reference all[2][FAULTS_RANKS + 1];
    struct reference *ref = &all[large][ranks];
    struct faults_case c = {.ranks = ranks, .large = large, .stage = "3"};
    const struct faults_times times = {60, NULL};

    if (ref->known)
        return ref;
    job_start(&c, &times);
    if (!job_wait(&c, -1, now_ms() + FAULTS_HANG_MS))
        job_kill(&c);
    if (atomic_load(&seats[0].n_steps) != FAULTS_STEPS || !seats[0].hash) {
        diag("without a fault: %s", seats[0].error);
        bail("the job fails without a fault");
    }
    ref->known = true;
    memcpy(ref->norms, seats[0].norms, sizeof ref->norms);
    ref->hash = seats[0].hash;
    return ref;
}

static bool is_right(const struct seat *s, const struct reference *ref)
{
    int n = atomic_load(&s->n_steps);

    n = n < FAULTS_STEPS ? n : FAULTS_STEPS;
    return memcmp(s->norms, ref->norms, (size_t)n * sizeof *s->norms) == 0 &&
           (!s->hash || s->hash == ref->hash);
}

/* Is the rank named, and no other one blamed? */
static bool names(const char *error, int victim)
{
    int blamed = -1, n = 0;

    if (sscanf(error, "rank %d failed", &blamed) == 1 && blamed != victim)
        return false;
    for (const char *at = error; (at = strstr(at, "rank")); at++) {
        int x = -1, y = -1; /* "rank 1", "ranks 0 and 1" */
        n = sscanf(at, "ranks %d and %d", &x, &y);
        if (n < 1)
            sscanf(at, "rank %d", &x);
        if (x == victim || y == victim)
            return true;
    }
    return false;
}

__attribute__((format(printf, 2, 3))) static void complain(struct faults_verdict *v,
                                                           const char *fmt, ...)
{
    va_list ap;

    if (*v->why)
        return;
    va_start(ap, fmt);
    vsnprintf(v->why, sizeof v->why, fmt, ap);
    va_end(ap);
    for (char *c = v->why; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

static void judge_rank(const struct faults_case *c, int i, const struct reference *ref,
                       int64_t since, struct faults_verdict *v)
{
    const bool may_end = faults_kinds[c->kind].phase == FAULTS_SHUTDOWN;
    const struct seat *s = &seats[i];
    int64_t at = atomic_load(&s->failed_ms);
    bool well = may_end && !s->err && s->hash;

    if (!is_right(s, ref)) {
        v->wrong = true;
        complain(v, "rank %d computed something else", i);
    }
    if (!s->err && !well) {
        v->detected = false;
        complain(v, "rank %d ended without an error", i);
    } else if (!well && !names(s->error, c->victim)) {
        v->named = false;
        complain(v, "rank %d does not name rank %d: \"%s\"", i, c->victim, s->error);
    }
    if (!well && since && at - since > v->ms)
        v->ms = (int)(at - since);
}

void faults_run(const struct faults_case *c, const struct faults_times *times,
                struct faults_verdict *v)
{
    const struct faults_kind *k = &faults_kinds[c->kind];
    const struct reference *ref = reference_of(c->ranks, c->large);
    const int limit_ms = k->limit_ms ? k->limit_ms : times->timeout_s * 1000 + 1000;
    int64_t begin = now_ms(), since, end;
    const struct seat *other = NULL;

    *v = (struct faults_verdict){.detected = true, .named = true};
    job_start(c, times);
    if (faults_signal(c))
        job_strike(c);
    v->hung = !job_wait(c, c->victim, begin + FAULTS_HANG_MS);
    end = now_ms();
    /* More than once: it may be about to be stopped when the others have already ended. */
    for (int ms = 0; !v->hung && ms < LEAVE_MS && !seats[c->victim].gone; ms += 100) {
        kill(seats[c->victim].pid, SIGCONT);
        job_wait(c, -1, now_ms() + 100);
    }
    if (!v->hung && !seats[c->victim].gone) {
        v->hung = true;
        complain(v, "rank %d does not end when it goes on", c->victim);
    }
    if (v->hung) {
        complain(v, "the others had to be killed after %d ms", (int)(end - begin));
        job_kill(c);
    }
    since = atomic_load(&seats[c->victim].injected_ms);
    v->happened = since != 0;
    if (!v->happened)
        complain(v, "%s did not happen: rank %d says \"%s\"", c->fault, c->victim,
                 seats[c->victim].error);
    v->end_ms = since && end > since ? (int)(end - since) : 0;
    if (k->phase == FAULTS_SHUTDOWN)
        v->ms = v->end_ms;
    for (int i = 0; i < c->ranks; i++) {
        if (WIFSIGNALED(seats[i].status) && (i != c->victim || strcmp(k->action, "kill") != 0)) {
            v->detected = false;
            complain(v, "rank %d got signal %d", i, WTERMSIG(seats[i].status));
        }
        if (i == c->victim)
            continue;
        judge_rank(c, i, ref, since, v);
        other = &seats[i];
    }
    v->late = v->ms > limit_ms || (faults_signal(c) && v->end_ms > limit_ms + FAULTS_END_MS);
    if (v->late)
        complain(v, "%d ms are more than %d, or %d ms to the end too many", v->ms, limit_ms,
                 v->end_ms);
    complain(v, "%s", other->error);
}

bool faults_good(const struct faults_verdict *v)
{
    return v->happened && v->detected && v->named && !v->hung && !v->wrong && !v->late;
}
