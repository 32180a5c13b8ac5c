/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library, and waiting of them. Signals are the application's business: its own
 * threads take them. Conditions are waited for by the clock that nobody sets.
 */
#ifndef ZERO_MACHINE_THREAD_H
#define ZERO_MACHINE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "machine/clock.h"

/*
 * All but those that a thread's own instruction raises: where one of these is blocked, the kernel
 * ends the process without the handler that would have told why, or gone on.
 */
static inline void zero__signals_of_others(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

/* Behind "cannot start a thread: %s" in a message, which alone names no limit. */
#define ZERO__THREAD_LIMITS "; ulimit -u and the control group's pids.max are the limits of threads"

/* As pthread_create(), with the signals of others blocked; `attr` may be NULL. */
static inline int zero__thread_create(pthread_t *thread, const pthread_attr_t *attr,
                                      void *(*run)(void *arg), void *arg)
{
    sigset_t others, before;

    zero__signals_of_others(&others);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int err = pthread_create(thread, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static inline void zero__cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

/* As pthread_cond_timedwait() for such a condition; `until_ns` as deadlines are. */
static inline int zero__cond_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns)
{
    const struct timespec t = {until_ns / ZERO_SECOND, until_ns % ZERO_SECOND};

    return pthread_cond_timedwait(c, lock, &t);
}

#endif
