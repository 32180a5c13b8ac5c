/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero info: what libzero would work with, seen through the same loader and options as a runtime.
 */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "print.h"
#include "tools/common/args.h"

static void help(FILE *f)
{
    fputs("usage: zero info [--options] [--plugins] [--machine]\n"
          "Shows what libzero finds here: without options the machine and, in short, the\n"
          "plugins.\n"
          "\n"
          "  --machine   cores, NUMA nodes, memory and its limits\n"
          "  --plugins   every plugin: version, path and capabilities, or what is wrong\n"
          "  --options   every option: value, where the value comes from, what it does\n"
          "  -h, --help  this text\n"
          "\n"
          "Options are read from ZERO_* variables and from the file that ZERO_CONFIG\n"
          "names, else from zero.conf in this folder. Exit status: 0; 1 if something cannot\n"
          "be read; 2 for bad use.\n",
          f);
}

static int terminal_width(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || w.ws_col < 60)
        return 80;
    return w.ws_col < 100 ? w.ws_col : 100;
}

void info_wrapped(const char *text, int at, int indent)
{
    const int width = terminal_width();
    bool first = true;

    if (at < indent)
        at += printf("%*s", indent - at, "");
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (!first && at + 1 + n > width) {
            printf("\n%*s", indent, "");
            at = indent;
            first = true;
        }
        at += printf("%s%.*s", first ? "" : " ", n, text);
        first = false;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* What options stand under: a group of the table, or a plugin, "comm fault". */
static void head_of(const struct info_kinds *kinds, uint32_t index,
                    const struct zero__option_row *row, char head[80])
{
    uint32_t i = index - ZERO__N_OPTIONS;
    const char *kind = index >= ZERO__N_OPTIONS && i < kinds->n ? kinds->of[i] : "";

    snprintf(head, 80, "%s%s%s", kind, *kind ? " " : "", row->group);
}

static void print_options(const struct zero__options *options, const struct info_kinds *kinds)
{
    struct zero__option_row row;
    char last[80] = "", head[80], name[80];

    for (uint32_t i = 0; zero__options_row(options, i, &row) == 0; i++) {
        head_of(kinds, i, &row, head);
        if (strcmp(last, head))
            printf("%s%s\n", i ? "\n" : "", head);
        strcpy(last, head);
        printf("  %-26s %-12s (%s%s%s)\n", zero__option_variable(row.name, name, sizeof name),
               row.value[0] ? row.value : "\"\"", row.source,
               strcmp(row.value, row.default_value) ? "; default: " : "",
               strcmp(row.value, row.default_value)
                   ? (row.default_value[0] ? row.default_value : "\"\"")
                   : "");
        info_wrapped(row.help, 0, 6);
        if (row.allowed[0])
            info_wrapped(row.allowed, printf("      allowed: "), 8);
    }
}

static int show(bool machine, enum info_plugins plugins, bool all)
{
    struct zero__options *options;
    struct zero__log log = {.rank = -1};
    struct info_kinds kinds = {0};
    int status = 0;

    if (machine || plugins)
        printf("zero %s\n\n", zero_version());
    if (machine)
        info_machine();
    if (zero__options_load(NULL, 0, &options)) {
        fflush(stdout);
        fprintf(stderr, "zero info: %s\n", zero_last_error());
        return 1;
    }
    zero__option_levels(options, &log);
    if (machine && plugins)
        putchar('\n');
    if (plugins || all)
        status = info_plugins(options, &log, plugins, &kinds);
    if (all) {
        if (machine || plugins)
            putchar('\n');
        print_options(options, &kinds);
    }
    fflush(stdout);
    zero__options_finish(options, &log, true, NULL);
    zero__options_free(options);
    free(kinds.of);
    return status;
}

int info_command(int argc, char **argv)
{
    bool options = false, plugins = false, machine = false;
    const struct tool_arg args[] = {
        TOOL_ARG("options", ON, &options),
        TOOL_ARG("plugins", ON, &plugins),
        TOOL_ARG("machine", ON, &machine),
    };
    int status =
        tool_args("info", args, sizeof args / sizeof *args, TOOL_NO_WORDS, help, argc, argv);

    if (status >= 0)
        return status;
    bool some = options || plugins || machine;
    return show(machine || !some, plugins ? INFO_WHOLE : some ? INFO_NONE : INFO_SHORT, options);
}
