/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero bench step` shows the parts of the time of a training step. The exit status is 0; 1 if the
 * training is not sound; 2 for bad use; else that of zero run.
 */
#ifndef ZERO_TOOLS_BENCH_STEP_COMMAND_H
#define ZERO_TOOLS_BENCH_STEP_COMMAND_H

int bench_step(int argc, char **argv);

#endif
