/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. Signals are the application's business: its own threads take them. */
#ifndef ZERO_BASE_THREAD_H
#define ZERO_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* As pthread_create(), with all signals blocked; `attr` may be NULL. */
static inline int zero__thread_create(pthread_t *thread, const pthread_attr_t *attr,
                                      void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(thread, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

#endif
