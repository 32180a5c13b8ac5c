/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a plugin. Signals are the application's business: its own threads take them. */
#ifndef ZERO_PLUGINS_COMMON_THREAD_H
#define ZERO_PLUGINS_COMMON_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * All but those that a thread's own instruction raises: where one of these is blocked, the kernel
 * ends the process without the handler that would have told why, or gone on.
 */
static inline void zero__others_signals(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

/* As pthread_create(), with the signals of others blocked. */
static inline int zero__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t others, before;

    zero__others_signals(&others);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

#endif
