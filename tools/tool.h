/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of `zero`. argv[0] is the subcommand's name; the result is the exit status:
 * 0, 2 for bad use, else what the subcommand's help says.
 */
#ifndef ZERO_TOOLS_TOOL_H
#define ZERO_TOOLS_TOOL_H

struct tool {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *use;  /* arguments, for the overview */
    const char *help; /* one line */
};

int tool_run(int argc, char **argv);
int tool_info(int argc, char **argv);
int tool_check(int argc, char **argv);
int tool_report(int argc, char **argv);
int tool_bench(int argc, char **argv);

/* Runs the entry of `table` (n long) that argv[1] names; `of` is what stands before it. */
int tool_dispatch(const char *of, const struct tool *table, unsigned n, int argc, char **argv);

#endif
