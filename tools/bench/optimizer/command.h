/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero bench optimizer` times the update of the host device. The exit status is 0; 1 if a result
 * is wrong; 2 for bad use.
 */
#ifndef ZERO_TOOLS_BENCH_OPTIMIZER_COMMAND_H
#define ZERO_TOOLS_BENCH_OPTIMIZER_COMMAND_H

int bench_optimizer(int argc, char **argv);

#endif
