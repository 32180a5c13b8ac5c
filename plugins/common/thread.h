/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a plugin. Signals are the application's business: its own threads take them. */
#ifndef ZERO_PLUGINS_COMMON_THREAD_H
#define ZERO_PLUGINS_COMMON_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* As pthread_create(), with all signals blocked. */
static inline int zero__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

#endif
