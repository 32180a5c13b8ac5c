/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare exchange over the library that a comm plugin stands on: a program of its own,
 * zero-exchange-NAME, built where the library is there, so that `zero` links none of them. It is
 * started once by rank 0, and sleeps when nothing is asked of it. See tools/exchange/pair.h.
 */
#ifndef ZERO_TOOLS_BENCH_COLL_BARE_H
#define ZERO_TOOLS_BENCH_COLL_BARE_H

#include <stdint.h>

#include "tools/common/comm.h"

struct bench_bare;

#define BENCH_BARE_WHY 256

/*
 * Starts the program for the comm plugin `comm`, a name or path, with the plugin's options as they
 * are; its ranks run on the processors `cpus` ("0,1"; NULL: where they like). NULL: there is none,
 * and `why` says so.
 */
struct bench_bare *bench_bare_start(const struct tool_comm *b, const char *comm, const char *cpus,
                                    char why[BENCH_BARE_WHY]);
/*
 * Seconds of n exchanges in which each rank sends and receives so many bytes, after `warm` ones.
 * 0, or a negative errno and why; then it can only be ended.
 */
int bench_bare_run(struct bench_bare *bare, uint64_t bytes, unsigned n, unsigned warm,
                   int64_t timeout_ns, double *seconds, char why[BENCH_BARE_WHY]);
/* NULL is fine. */
void bench_bare_end(struct bench_bare *bare);

#endif
