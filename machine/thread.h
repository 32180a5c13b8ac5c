/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. Signals are the application's business: its own threads take them. */
#ifndef ZERO_MACHINE_THREAD_H
#define ZERO_MACHINE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

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

#endif
