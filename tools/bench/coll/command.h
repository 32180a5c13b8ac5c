/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero bench coll` times the collectives of a comm plugin, `zero bench p2p` messages between two
 * ranks. The exit status is 0; 1 if a result is wrong or a rank failed; 2 for bad use.
 */
#ifndef ZERO_TOOLS_BENCH_COLL_COMMAND_H
#define ZERO_TOOLS_BENCH_COLL_COMMAND_H

int bench_coll(int argc, char **argv);
int bench_p2p(int argc, char **argv);

#endif
