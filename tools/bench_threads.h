/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that start a plain loop together, to see what they reach. */
#ifndef ZERO_TOOLS_BENCH_THREADS_H
#define ZERO_TOOLS_BENCH_THREADS_H

#include <stdint.h>

/*
 * Runs fn(arg, i, n) on n threads that begin at once; *ns is the time from the first one's start to
 * the last one's end. 0 or a negative errno with a sentence.
 */
int bench_threads_run(unsigned n, void (*fn)(void *arg, unsigned i, unsigned n), void *arg,
                      int64_t *ns);

#endif
