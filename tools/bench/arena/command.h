/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero bench arena` plans recorded lifetimes of buffers. The exit status is 0; 1 if a plan is
 * above its capacity; 2 for bad use or a bad file, which standard error explains.
 */
#ifndef ZERO_TOOLS_BENCH_ARENA_COMMAND_H
#define ZERO_TOOLS_BENCH_ARENA_COMMAND_H

int bench_arena(int argc, char **argv);

#endif
