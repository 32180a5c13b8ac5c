/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a test, each with a record of its own. */
#ifndef ZERO_TESTS_THREADS_H
#define ZERO_TESTS_THREADS_H

#include "tap.h"

#include <pthread.h>

/* Calls fn with each of n records at once; all threads have ended on return. */
static void threads_run(void *(*fn)(void *), void *records, size_t size, unsigned n)
{
    pthread_t *threads = calloc(n, sizeof *threads);

    for (unsigned i = 0; i < n; i++)
        if (!threads || pthread_create(&threads[i], NULL, fn, (char *)records + i * size))
            bail("cannot start a thread");
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

#define in_threads(fn, records, n) threads_run(fn, records, sizeof *(records), n)

#endif
