/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the ranks of a test as threads or as processes of their own. A rank checks with want(),
 * which records the first failures in memory that all share; the parent alone speaks TAP. A rank
 * that hangs is killed (processes) or ends the test (threads) after RANKS_SECONDS.
 */
#ifndef ZERO_TESTS_RANKS_H
#define ZERO_TESTS_RANKS_H

#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define RANKS_MAX 64
#define RANKS_SECONDS 240 /* sanitizers, on a machine with other work */
#ifdef __SANITIZE_THREAD__ /* it sees nothing of what processes do to each other */
#define RANKS_PROCESSES 0
#else
#define RANKS_PROCESSES 1
#endif

enum ranks_how { AS_THREADS, AS_PROCESSES };

struct rank {
    int rank, ranks;
    pid_t pid;
    void *arg; /* of ranks_run(); in a process, a copy */
    void (*fn)(struct rank *);
    int bad, status; /* status: of waitpid() */
    char text[4][512];
    int64_t value; /* whatever the test wants to hand back */
};

__attribute__((unused)) static const char *ranks_how_name[] = {"threads", "processes"};

__attribute__((unused, format(printf, 5, 6))) static bool
rank_want(struct rank *r, bool good, const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    if (good)
        return true;
    if (r->bad < 4) {
        int n =
            snprintf(r->text[r->bad], sizeof r->text[0], "rank %d, %s:%d: ", r->rank, file, line);
        va_start(ap, fmt);
        vsnprintf(r->text[r->bad] + n, sizeof r->text[0] - (size_t)n, fmt, ap);
        va_end(ap);
    }
    r->bad++;
    return false;
}

#define want(r, cond, ...) rank_want((r), (cond), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((unused)) static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((unused)) static void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* Memory that threads and processes of the test share, zeroed. */
__attribute__((unused)) static void *shared_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        bail("no shared memory");
    return p;
}

static void *rank_thread(void *arg)
{
    struct rank *r = arg;
    r->fn(r);
    return NULL;
}

static void ranks_start(struct rank *all, int n, enum ranks_how how, pthread_t *threads)
{
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        if (how == AS_THREADS) {
            all[i].pid = getpid();
            if (pthread_create(&threads[i], NULL, rank_thread, &all[i]))
                bail("cannot start a thread");
            continue;
        }
        pid_t pid = fork();
        if (pid < 0)
            bail("cannot fork");
        if (pid == 0) {
            alarm(RANKS_SECONDS);
            all[i].pid = getpid();
            all[i].fn(&all[i]);
            _exit(0);
        }
        all[i].pid = pid;
    }
}

/* Runs fn on n ranks; the records stay valid until the next call. */
__attribute__((unused)) static struct rank *ranks_run(int n, enum ranks_how how,
                                                      void (*fn)(struct rank *), void *arg)
{
    static struct rank *all;
    pthread_t threads[RANKS_MAX];

    if (!all)
        all = shared_memory(RANKS_MAX * sizeof *all);
    memset(all, 0, RANKS_MAX * sizeof *all);
    for (int i = 0; i < n; i++)
        all[i] = (struct rank){.rank = i, .ranks = n, .arg = arg, .fn = fn};
    if (how == AS_THREADS)
        alarm(RANKS_SECONDS);
    ranks_start(all, n, how, threads);
    for (int i = 0; i < n; i++)
        if (how == AS_THREADS)
            pthread_join(threads[i], NULL);
        else
            waitpid(all[i].pid, &all[i].status, 0);
    alarm(0);
    return all;
}

/* Good when no rank has complaints; in processes, all must have exited with 0. */
__attribute__((unused, format(printf, 3, 4))) static bool ranks_good(const struct rank *all, int n,
                                                                     const char *fmt, ...)
{
    char name[256];
    bool good = true;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    for (int i = 0; i < n; i++)
        good &= all[i].bad == 0 && all[i].status == 0;
    ok(good, "%s", name);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < all[i].bad && k < 4; k++)
            diag("%s", all[i].text[k]);
        if (all[i].status)
            diag("rank %d: wait status 0x%x", i, (unsigned)all[i].status);
    }
    return good;
}

#endif
