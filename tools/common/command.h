/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `zero` in tables: `zero` has one, and so do `zero bench`, `zero check` and
 * `zero report`. argv[0] of a command is its own name. Its result is the exit status of the
 * process: 0, 2 for bad use, any other value as the help of the command says.
 */
#ifndef ZERO_TOOLS_COMMON_COMMAND_H
#define ZERO_TOOLS_COMMON_COMMAND_H

struct tool {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *use;  /* arguments, for the overview */
    const char *help; /* one line */
};

/* Runs the entry of `table` (n long) that argv[1] names; `of` is "zero" or "zero bench". */
int tool_dispatch(const char *of, const struct tool *table, unsigned n, int argc, char **argv);

#endif
