/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the command that a command line names, or says which commands there are. */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

static void help(FILE *f, const char *of, const struct tool *table, unsigned n)
{
    fprintf(f, "usage: %s COMMAND [ARG]...\n\n", of);
    for (unsigned i = 0; i < n; i++)
        fprintf(f, "  %-9s %-28s %s\n", table[i].name, table[i].use, table[i].help);
    fprintf(f, "\n%s COMMAND --help tells more%s.\n", of,
            strcmp(of, "zero") ? "" : "; zero --version says which one this is.\n"
                                      "Options of the library are ZERO_* variables: zero info "
                                      "--options, or zero(7)");
}

static int unknown(const char *of, const struct tool *table, unsigned n, const char *name)
{
    const char *near = NULL;
    unsigned best = 2 + 1;

    for (unsigned i = 0; i < n; i++)
        if (zero__nearer(name, table[i].name, &best))
            near = table[i].name;
    fprintf(stderr, "%s: there is no command \"%s\"", of, name);
    if (near)
        fprintf(stderr, ": did you mean \"%s\"?\n", near);
    else
        fprintf(stderr, ": %s --help lists them\n", of);
    return 2;
}

int tool_dispatch(const char *of, const struct tool *table, unsigned n, int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (!name) {
        help(stderr, of, table, n);
        return 2;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        help(stdout, of, table, n);
        return 0;
    }
    for (unsigned i = 0; i < n; i++)
        if (!strcmp(name, table[i].name))
            return table[i].main(argc - 1, argv + 1);
    return unknown(of, table, n, name);
}
