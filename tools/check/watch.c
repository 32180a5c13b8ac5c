/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that does not return takes its thread along, so another one looks at the time. It ends
 * the process of a rank that does not come back from a case, and, soon after another rank was lost,
 * of one that waits for it: rank 0 says what became of the case first. Rank 0 may be lost itself;
 * the process that started it says so then, by the board.
 */
#define _GNU_SOURCE
#include "config.h"

#include "watch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/clock.h"
#include "machine/thread.h"

#define NEWS_NS ZERO_SECOND       /* for the others to hear of it before this process ends */
#define LOST_NS (2 * ZERO_SECOND) /* for a case to end by itself after a rank was lost */

/* The thread that hangs may hold the lock of stdout. */
__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...)
{
    char text[1400];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int at = 0; n > 0 && at < n && at < (int)sizeof text - 1;) {
        ssize_t done = write(STDOUT_FILENO, text + at, strlen(text + at));
        if (done <= 0)
            return;
        at += (int)done;
    }
}

static void give_up(const struct check_watch *w)
{
    static const struct timespec news = {NEWS_NS / ZERO_SECOND, NEWS_NS % ZERO_SECOND};
    char who[24] = "it", why[400];

    if (w->job)
        snprintf(who, sizeof who, "rank %d", w->rank);
    if (w->lost)
        snprintf(why, sizeof why, "%s", zero__job_report(w->job) ? zero__error_text() : "");
    else
        snprintf(why, sizeof why,
                 "%s has not returned from a call of the plugin in \"%s\" for %llu s (--timeout): "
                 "run that alone (--case), and look where it is (gdb -p)",
                 who, w->name, (unsigned long long)w->seconds);
    if (w->rank == 0) {
        tell("not ok %u - %s\n# %s\nBail out! no further case could tell anything\n", w->number,
             w->name, why);
        if (w->board)
            atomic_store(&w->board->finished, 1);
    }
    if (!w->lost && w->job) {
        zero__job_on_error(w->job, NULL, NULL); /* it would come back here, with one rank at once */
        zero__job_fail(w->job, w->rank, -ETIMEDOUT, "a case", why);
        nanosleep(&news, NULL);
    }
    _exit(1); /* its thread is lost, and whatever it holds */
}

static void *watch(void *arg)
{
    struct check_watch *w = arg;

    pthread_mutex_lock(&w->lock);
    while (!w->over) {
        if (!*w->name)
            pthread_cond_wait(&w->changed, &w->lock);
        else if (zero__now_ns() < w->deadline_ns)
            zero__cond_until(&w->changed, &w->lock, w->deadline_ns);
        else
            give_up(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void deadline_set(struct check_watch *w)
{
    w->deadline_ns = zero__deadline_ns(w->lost ? LOST_NS : (int64_t)w->seconds * ZERO_SECOND);
    pthread_cond_signal(&w->changed);
}

static void rank_lost(void *arg)
{
    struct check_watch *w = arg;

    pthread_mutex_lock(&w->lock);
    w->lost = 1;
    deadline_set(w);
    pthread_mutex_unlock(&w->lock);
}

int check_watch_start(struct check_watch *w, struct zero__job *job, int rank, uint64_t seconds)
{
    *w = (struct check_watch){.job = job, .rank = rank, .seconds = seconds};
    pthread_mutex_init(&w->lock, NULL);
    zero__cond_init(&w->changed);
    int err = zero__thread_create(&w->thread, NULL, watch, w);
    if (err)
        return zero__fail(-err,
                          "cannot start a thread that looks at the time: %s" ZERO__THREAD_LIMITS,
                          strerror(err));
    w->runs = 1;
    if (job)
        zero__job_on_error(job, rank_lost, w);
    return 0;
}

void check_watch_stop(struct check_watch *w)
{
    if (!w->runs)
        return;
    if (w->job)
        zero__job_on_error(w->job, NULL, NULL);
    pthread_mutex_lock(&w->lock);
    w->over = 1;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    w->runs = 0;
}

void check_watch_case(struct check_watch *w, const char *name, unsigned number)
{
    struct check_board *board = w->rank == 0 ? w->board : NULL;

    pthread_mutex_lock(&w->lock);
    snprintf(w->name, sizeof w->name, "%s", name ? name : "");
    w->number = number;
    deadline_set(w);
    if (board && name) {
        snprintf(board->name, sizeof board->name, "%s", name);
        atomic_store(&board->number, number);
    }
    pthread_mutex_unlock(&w->lock);
}

int check_board_create(void)
{
    int fd = memfd_create("zero-check", 0); /* without CLOEXEC: the ranks get it */

    if (fd < 0 || ftruncate(fd, sizeof(struct check_board))) {
        fprintf(stderr, "zero check: no memory to share with the ranks: %s\n", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

struct check_board *check_board_open(int fd)
{
    void *p =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, sizeof(struct check_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}
