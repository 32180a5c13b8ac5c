/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that dies: processes train the toy model, one of them gets SIGKILL at a random moment of
 * zero_create(), zero_commit() or the steps. Every other rank returns an error that names the dead
 * one within a second, ends by itself, and no shared memory is left behind. Who dies before it has
 * joined is missed at the end of the time for joining. With ON_CUDA the ranks share the memory of
 * GPUs, over a driver that executes on the host.
 */
#include "../tap.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "memfds.h"
#include "toy.h"

#define SEED 7777u
#ifdef ON_CUDA
#include "../fake/cuda_driver.h"
#define ROUNDS 30
#define DEVICE "cuda:0"
#else
#define ROUNDS 120
#define DEVICE "host"
#endif
#define MAX_RANKS 4
#define LIMIT_MS 1000
#define JOIN_MS 1000 /* of rounds in which a rank dies in zero_create() */
#define WATCHDOG_S 10
#define MAX_MEMFDS 64

/* What a rank is doing; it dies in one of them. */
enum moment { STARTING, CREATING, COMMITTING, STEPPING, N_MOMENTS };

/* Shared by the processes of a round. */
struct seat {
    atomic_int moment;
    atomic_int n_memfds;
    uint64_t memfds[MAX_MEMFDS];
    int err;
    int64_t failed_ms; /* when the error came back */
    char error[512];
};

static struct seat *seats;
static uint64_t memfds[ROUNDS * MAX_RANKS * MAX_MEMFDS]; /* of all ranks there were */
static int n_memfds;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static uint32_t draw(uint32_t n)
{
    static uint32_t state = SEED;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

static void note(int rank, enum moment moment)
{
    struct seat *s = &seats[rank];

    atomic_store(&s->n_memfds, memfds_of("self", s->memfds, MAX_MEMFDS));
    atomic_store(&s->moment, moment);
}

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rt, (void)arg;
    note(rank, COMMITTING);
}

static void committed(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rt, (void)arg;
    note(rank, STEPPING);
}

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)arg;
    seats[rank].failed_ms = now_ms();
    seats[rank].err = err;
    snprintf(seats[rank].error, sizeof seats[rank].error, "%s", error);
}

static void *reach(const void *p)
{
#ifdef ON_CUDA
    return fake_cuda_reach(p);
#else
    return (void *)(uintptr_t)p;
#endif
}

static void rank_main(int rank, int ranks, const char *job, const char *stage, const char *timeout)
{
    struct zero_setting s[] = {{"stage", stage},
                               {"timeout", timeout},
                               {"comm", "shm"},
                               {"threads", "1"},
                               {"device", DEVICE}};
    struct toy t = {.ranks = ranks,
                    .layers = 6,
                    .steps = 1000000,
                    .dtype = ZERO_BF16,
                    .width = 3000,
                    .flags = TOY_EVAL,
                    .settings = s,
                    .n_settings = 5,
                    .seed = 1,
                    .reach = reach,
                    .registered = registered,
                    .committed = committed,
                    .failed = failed};
    struct toy_result r;

    alarm(WATCHDOG_S);
    atomic_store(&seats[rank].moment, CREATING);
    toy_rank(&t, rank, job, &r);
    _exit(0);
}

struct round {
    int ranks, victim;
    const char *stage;
    enum moment moment, hit; /* meant, and the one it was */
    uint32_t delay_us;
    int64_t killed_ms, slowest_ms;
    bool in_operation; /* the sentence says in what rank 0 waited */
    char why[800];
};

static void blame(struct round *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void blame(struct round *x, const char *fmt, ...)
{
    va_list ap;

    if (x->why[0])
        return;
    va_start(ap, fmt);
    vsnprintf(x->why, sizeof x->why, fmt, ap);
    va_end(ap);
}

/* From "rank 1 failed" on; before it may stand what the rank itself was about to do. */
static const char *sentence(const struct round *x, int rank)
{
    char name[32];

    snprintf(name, sizeof name, "rank %d failed", x->victim);
    const char *at = strstr(seats[rank].error, name);
    return at ? at : seats[rank].error;
}

/* Rank 0 decides of another rank: all say the same, and in what it waited. */
static void sentences_check(struct round *x)
{
    for (int i = 1; i < x->ranks; i++)
        if (i != x->victim && strcmp(sentence(x, 0), sentence(x, i)) != 0)
            blame(x, "rank 0 says \"%s\", rank %d \"%s\"", seats[0].error, i, seats[i].error);
    const char *at = strstr(seats[0].error, "; rank 0 waited in ");
    if (!at)
        blame(x, "\"%s\" does not say what rank 0 waited in", seats[0].error);
    x->in_operation = at && strstr(at, " (#");
}

static void ends_check(struct round *x, const pid_t *pids)
{
    int limit = LIMIT_MS + (x->hit == CREATING ? JOIN_MS : 0);
    char name[32];

    snprintf(name, sizeof name, "rank %d", x->victim);
    for (int i = 0; i < x->ranks; i++) {
        const struct seat *s = &seats[i];
        int status;
        waitpid(pids[i], &status, 0);
        if (i == x->victim)
            continue;
        int64_t ms = s->failed_ms - x->killed_ms;
        if (WIFSIGNALED(status))
            blame(x, "rank %d: signal %d", i, WTERMSIG(status));
        else if (!s->err)
            blame(x, "rank %d ended without an error", i);
        else if (!strstr(s->error, name))
            blame(x, "rank %d: \"%s\" does not name %s", i, s->error, name);
        else if (ms > limit)
            blame(x, "rank %d: its error came after %d ms", i, (int)ms);
        if (s->failed_ms && x->hit > CREATING && ms > x->slowest_ms)
            x->slowest_ms = ms;
    }
    if (x->victim && x->hit == STEPPING)
        sentences_check(x);
    if (now_ms() - x->killed_ms > LIMIT_MS + limit)
        blame(x, "the last rank ended after %d ms", (int)(now_ms() - x->killed_ms));
}

static void memfds_collect(const struct round *x)
{
    for (int i = 0; i < x->ranks; i++)
        for (int k = 0; k < atomic_load(&seats[i].n_memfds); k++)
            memfds[n_memfds++] = seats[i].memfds[k];
}

static void one(struct round *x, int number)
{
    atomic_int *moment = &seats[x->victim].moment;
    pid_t pids[MAX_RANKS];
    char job[64];

    memset(seats, 0, MAX_RANKS * sizeof *seats);
    snprintf(job, sizeof job, "killed-%d-%d", (int)getpid(), number);
    fflush(stdout);
    for (int i = 0; i < x->ranks; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            bail("cannot fork");
        if (pids[i] == 0)
            rank_main(i, x->ranks, job, x->stage, x->moment == CREATING ? "1" : "20");
    }
    for (int i = 0; i < 50000 && atomic_load(moment) < (int)x->moment; i++)
        sleep_us(100);
    if (atomic_load(moment) < (int)x->moment)
        blame(x, "rank %d did not get as far as that", x->victim);
    sleep_us((long)x->delay_us);
    x->killed_ms = now_ms();
    kill(pids[x->victim], SIGKILL);
    x->hit = (enum moment)atomic_load(moment);
    ends_check(x, pids);
    memfds_collect(x);
}

/* The search must find what there is: the memory files of ranks that live. */
static void memfds_control(void)
{
    struct round x = {.ranks = 2, .stage = "3", .moment = STEPPING, .hit = STEPPING, .victim = 1};
    pid_t pids[MAX_RANKS];
    char job[64];

    snprintf(job, sizeof job, "killed-%d-control", (int)getpid());
    fflush(stdout);
    for (int i = 0; i < x.ranks; i++)
        if ((pids[i] = fork()) == 0)
            rank_main(i, x.ranks, job, x.stage, "20");
    for (int i = 0; i < x.ranks; i++)
        for (int k = 0; k < 5000 && atomic_load(&seats[i].moment) < STEPPING; k++)
            sleep_us(1000);
    memfds_collect(&x);
    ok(n_memfds && memfds_alive(memfds, n_memfds), "ranks that live hold memory files");
    x.killed_ms = now_ms();
    kill(pids[x.victim], SIGKILL);
    ends_check(&x, pids);
}

int main(void)
{
    static const char *const stages[] = {"3", "1", "2", "0"};
    static const char *const names[] = {"", "zero_create", "zero_commit", "the steps"};
    int bad = 0, hits[N_MOMENTS] = {0}, in_operation = 0;
    int64_t slowest = 0;

    seats = mmap(NULL, MAX_RANKS * sizeof *seats, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seats == MAP_FAILED)
        bail("no shared memory");
    memfds_control();
    for (int i = 0; i < ROUNDS; i++) {
        struct round x = {.ranks = 2 + i % 3, .stage = stages[i % 4]};
        x.moment = i % 6 == 0 ? CREATING : i % 6 < 3 ? COMMITTING : STEPPING;
        x.victim = (int)draw((uint32_t)x.ranks);
        x.delay_us = draw(x.moment == CREATING ? 6000 : x.moment == COMMITTING ? 3000 : 50000);
        one(&x, i);
        hits[x.hit]++;
        in_operation += x.in_operation;
        slowest = x.slowest_ms > slowest ? x.slowest_ms : slowest;
        if (!x.why[0])
            continue;
        bad++;
        diag("round %d, seed %u: rank %d of %d killed after %u us in %s in stage %s: %s", i, SEED,
             x.victim, x.ranks, x.delay_us, names[x.moment], x.stage, x.why);
    }
    is_int(bad, 0, "%d ranks killed: all others named them within %d ms", ROUNDS, LIMIT_MS);
    ok(in_operation, "and of %d the operation in which rank 0 waited for them", in_operation);
    diag("%d in zero_create, %d in zero_commit, %d in the steps; the slowest error of those that "
         "had joined came after %d ms",
         hits[CREATING], hits[COMMITTING], hits[STEPPING], (int)slowest);
    is_int(memfds_alive(memfds, n_memfds), 0, "nobody holds the memory files that they had");
    done();
}
