/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero bench offload` times reads and writes of an offload plugin. The exit status is 0; 1 if a
 * result is wrong or the page cache is in between; 2 for bad use.
 */
#ifndef ZERO_TOOLS_BENCH_OFFLOAD_COMMAND_H
#define ZERO_TOOLS_BENCH_OFFLOAD_COMMAND_H

int bench_offload(int argc, char **argv);

#endif
