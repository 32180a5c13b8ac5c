/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that dies: processes train the toy model, one of them gets SIGKILL at a random moment
 * after it joined, a hundred times. Every other rank returns an error that names the dead one
 * within a second, ends by itself, and nothing is left behind in shared memory.
 */
#include "../tap.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "toy.h"

#define SEED 7777u
#define ROUNDS 100
#define MAX_RANKS 4
#define LIMIT_MS 1000
#define WATCHDOG_S 10

/* Shared by the processes of a round. */
struct seat {
    atomic_int joined;
    int err;
    int64_t failed_ms; /* when the error came back */
    char error[512];
};

static struct seat *seats;

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

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rt, (void)arg;
    atomic_store(&seats[rank].joined, 1);
}

static void failed(int rank, int err, const char *error, void *arg)
{
    (void)arg;
    seats[rank].failed_ms = now_ms();
    seats[rank].err = err;
    snprintf(seats[rank].error, sizeof seats[rank].error, "%s", error);
}

static void rank_main(int rank, int ranks, const char *job, const char *stage)
{
    struct zero_setting s[] = {{"stage", stage}, {"timeout", "20"}, {"comm", "shm"},
                               {"threads", "1"}, {"dynamic_bytes", "0"}};
    struct toy t = {.ranks = ranks, .layers = 6, .steps = 1000000, .dtype = ZERO_BF16,
                    .width = 3000, .flags = TOY_EVAL, .settings = s, .n_settings = 5, .seed = 1,
                    .registered = registered, .failed = failed};
    struct toy_result r;

    alarm(WATCHDOG_S);
    toy_rank(&t, rank, job, &r);
    _exit(0);
}

static int shm_files(void)
{
    DIR *d = opendir("/dev/shm");
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

struct round {
    int ranks, victim;
    const char *stage;
    uint32_t delay_us;
    int64_t killed_ms, slowest_ms;
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

static void ends_check(struct round *x, const pid_t *pids)
{
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
        else if (ms > LIMIT_MS)
            blame(x, "rank %d: its error came after %d ms", i, (int)ms);
        if (s->failed_ms && ms > x->slowest_ms)
            x->slowest_ms = ms;
    }
    if (now_ms() - x->killed_ms > 2 * LIMIT_MS)
        blame(x, "the last rank ended after %d ms", (int)(now_ms() - x->killed_ms));
}

static void one(struct round *x, int number)
{
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
            rank_main(i, x->ranks, job, x->stage);
    }
    for (int i = 0; i < 5000 && !atomic_load(&seats[x->victim].joined); i++)
        sleep_us(1000);
    if (!atomic_load(&seats[x->victim].joined))
        blame(x, "rank %d did not join", x->victim);
    sleep_us((long)x->delay_us);
    x->killed_ms = now_ms();
    kill(pids[x->victim], SIGKILL);
    ends_check(x, pids);
}

int main(void)
{
    static const char *const stages[] = {"3", "1", "2", "0"};
    int before = shm_files(), bad = 0;
    int64_t slowest = 0;

    seats = mmap(NULL, MAX_RANKS * sizeof *seats, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seats == MAP_FAILED)
        bail("no shared memory");
    for (int i = 0; i < ROUNDS; i++) {
        struct round x = {.ranks = 2 + i % 3, .stage = stages[i % 4]};
        x.victim = (int)draw((uint32_t)x.ranks);
        x.delay_us = i % 5 == 0 ? draw(2000) : draw(50000);
        one(&x, i);
        slowest = x.slowest_ms > slowest ? x.slowest_ms : slowest;
        if (!x.why[0])
            continue;
        bad++;
        diag("round %d, seed %u: rank %d of %d killed after %u us in stage %s: %s", i, SEED,
             x.victim, x.ranks, x.delay_us, x.stage, x.why);
    }
    is_int(bad, 0, "%d ranks killed: all others named them within %d ms", ROUNDS, LIMIT_MS);
    diag("the slowest error came after %d ms", (int)slowest);
    is_int(shm_files(), before, "nothing is left in /dev/shm");
    done();
}
