/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks whose ranks are processes: this program starts itself again, as `zero run` would. */
#ifndef ZERO_TOOLS_BENCH_RANKS_H
#define ZERO_TOOLS_BENCH_RANKS_H

#include <stdbool.h>

/*
 * The hidden option that makes a benchmark's command line that of a rank. Its value is "CORES,FD":
 * how many cores there are, since a rank is bound to one, and a descriptor that ranks inherit.
 */
#define BENCH_RANK "rank-of-bench"

/*
 * Starts `zero TOOL BENCH --rank-of-bench=CORES,FD ARG...` as n ranks, argv being "BENCH ARG..."
 * with NULL at the end, and waits. fd is -1 for none. Returns the exit status: 0, 1 when a rank
 * failed (it said why), else that of zero run.
 */
int bench_ranks_run(const char *tool, int n, bool bind, int fd, int argc, char **argv);

/* Cores that this process may use. */
int bench_cores(void);

#endif
