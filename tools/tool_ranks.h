/* SPDX-License-Identifier: Apache-2.0 */
/* Tools whose ranks are processes: this program starts itself again, as `zero run` would. */
#ifndef ZERO_TOOLS_TOOL_RANKS_H
#define ZERO_TOOLS_TOOL_RANKS_H

#include <stdbool.h>

/*
 * False after a sentence when this process is a rank of a job already, and so would start as many
 * jobs as there are ranks. `tool` is "bench coll", say.
 */
bool tool_ranks_may_start(const char *tool);

/*
 * Starts `zero TOOL KIND ARG...` as n ranks, argv being "KIND ARG..." with NULL at the end, and
 * waits. fd, -1 for none, is inherited. Returns the exit status: 0, 1 when a rank failed (it said
 * why), else that of zero run.
 */
int tool_ranks_run(const char *tool, int n, bool bind, int fd, int argc, char **argv);

/*
 * In a rank that tool_ranks_run() has started: true, and the cores of the launcher, since a rank
 * is bound to one of them, and the descriptor.
 */
bool tool_ranks_is_rank(int *cores, int *fd);

/*
 * Cores that this process may keep busy, at least 1: as transports count them, a container that has
 * the time of a few among many counts for those (docker --cpus).
 */
int tool_cores(void);

#endif
