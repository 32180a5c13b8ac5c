/* SPDX-License-Identifier: Apache-2.0 */
/* `zero bench`: a table of benchmarks. */
#ifndef ZERO_TOOLS_BENCH_COMMAND_H
#define ZERO_TOOLS_BENCH_COMMAND_H

int bench_command(int argc, char **argv);

#endif
