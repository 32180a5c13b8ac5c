/* SPDX-License-Identifier: Apache-2.0 */
/* What `zero check` is asked for, of whatever kind: a plugin, which of the cases, and how often. */
#ifndef ZERO_TOOLS_CHECK_SELECT_H
#define ZERO_TOOLS_CHECK_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/common/args.h"

struct check_select {
    const char *plugin, *only;
    uint64_t seed, repeat, timeout_s;
    bool list, huge;
};

/* Reads a command line with one more option, the tool's own; what it returns is tool_args()'s. */
int check_parse(const char *tool, struct check_select *s, const struct tool_arg *own,
                uint64_t least_timeout_s, void (*help)(FILE *f), int argc, char **argv);

bool check_chosen(const struct check_select *s, const char *name);

/*
 * Of a table of cases, which begin with their name and of which the last one has none: prints all
 * where a list is wanted, else counts those that are chosen. -1: go on; else the exit status.
 */
int check_ready(const char *tool, const struct check_select *s, const void *cases,
                size_t size_of_case, unsigned *n);

#endif
