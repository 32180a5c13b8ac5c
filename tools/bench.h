/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks behind `zero bench`: one file each, an entry in the table of tools/bench.c. */
#ifndef ZERO_TOOLS_BENCH_H
#define ZERO_TOOLS_BENCH_H

/* How fast a comm plugin's collectives are. Exit status 0; 1 if a result is wrong or a rank failed;
 * 2 for bad use. */
int bench_coll(int argc, char **argv);

/* The same for messages between two ranks. */
int bench_p2p(int argc, char **argv);

/* How fast the host device updates states. Exit status as above. */
int bench_optimizer(int argc, char **argv);

/* How fast an offload plugin reads and writes. Exit status as above; 1 also if the page cache is in
 * between. */
int bench_offload(int argc, char **argv);

/* Where the time of a training step goes. Exit status 0; 1 if the training is not sound; 2 for bad
 * use, else that of zero run. */
int bench_step(int argc, char **argv);

/* How well the memory planner does on recorded lifetimes. Exit status 0; 1 if a plan is above its
 * capacity; 2 for bad use or a bad file, which standard error explains. */
int bench_arena(int argc, char **argv);

#endif
