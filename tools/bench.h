/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks behind `zero bench`: one file each, an entry in the table of tools/bench.c. */
#ifndef ZERO_TOOLS_BENCH_H
#define ZERO_TOOLS_BENCH_H

/* How well the memory planner does on recorded lifetimes. Exit status 0; 1 if a plan is above its
 * capacity; 2 for bad use or a bad file, which standard error explains. */
int bench_arena(int argc, char **argv);

#endif
