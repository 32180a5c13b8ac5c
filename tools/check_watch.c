/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that does not return takes its thread along, so another one looks at the time. Only who
 * is inside of a case is late: the others wait for its verdict, hear why there is none, and end.
 */
#include "config.h"

#include "check_watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

#define NEWS_MS 1000 /* for the others to hear of it before this process ends */

static void give_up(const struct check_watch *w)
{
    static const struct timespec news = {NEWS_MS / 1000, NEWS_MS % 1000 * 1000000};
    char why[200];

    snprintf(why, sizeof why,
             "\"%.80s\" has not returned after %llu s (--timeout): run it alone (--case), and look "
             "meanwhile where it is (gdb -p)",
             w->name, (unsigned long long)w->seconds);
    if (w->rank == 0) {
        printf("not ok %u - %s\n# rank 0: %s\nBail out! a call of the plugin does not return\n",
               w->number, w->name, why);
        fflush(stdout);
    }
    if (w->job) {
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
        struct timespec t = {w->deadline_ns / ZERO_SECOND, w->deadline_ns % ZERO_SECOND};
        if (!w->name)
            pthread_cond_wait(&w->changed, &w->lock);
        else if (zero__now_ns() < w->deadline_ns)
            pthread_cond_timedwait(&w->changed, &w->lock, &t);
        else
            give_up(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int check_watch_start(struct check_watch *w, struct zero__job *job, int rank, uint64_t seconds)
{
    pthread_condattr_t clock;

    *w = (struct check_watch){.job = job, .rank = rank, .seconds = seconds};
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &clock);
    pthread_condattr_destroy(&clock);
    int err = pthread_create(&w->thread, NULL, watch, w);
    if (err)
        return zero__fail(-err, "cannot start a thread that looks at the time: %s", strerror(err));
    w->runs = 1;
    return 0;
}

void check_watch_stop(struct check_watch *w)
{
    if (!w->runs)
        return;
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
    pthread_mutex_lock(&w->lock);
    w->name = name;
    w->number = number;
    w->deadline_ns = zero__deadline_ns((int64_t)w->seconds * ZERO_SECOND);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}
