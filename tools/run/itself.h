/* SPDX-License-Identifier: Apache-2.0 */
/* Tools whose ranks are processes: this program starts itself again, as `zero run` would. */
#ifndef ZERO_TOOLS_RUN_ITSELF_H
#define ZERO_TOOLS_RUN_ITSELF_H

#include <stdbool.h>

/*
 * False after a sentence when this process is a rank of a job already, and so would start as many
 * jobs as there are ranks. `tool` is "bench coll", say.
 */
bool run_itself_may_start(const char *tool);

/*
 * Starts `zero TOOL KIND ARG...` as n ranks, argv being "KIND ARG..." with NULL at the end, and
 * waits. fd, -1 for none, is inherited. Returns the exit status: 0, 1 when a rank failed (it said
 * why), else that of zero run.
 */
int run_itself(const char *tool, int n, bool bind, int fd, int argc, char **argv);

/*
 * In a rank that run_itself() has started: true, and the cores of the launcher, since a rank
 * is bound to one of them, and the descriptor.
 */
bool run_itself_is_rank(int *cores, int *fd);

#endif
