/* SPDX-License-Identifier: Apache-2.0 */
/* `zero report memory LOG...`: what a rank of each run reserved, side by side. */
#include "config.h"

#include "command.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "columns.h"
#include "tools/common/args.h"

#define MOST_COLUMNS 64u /* that a table or a picture is drawn with */

static void help(FILE *f)
{
    fputs("usage: zero report memory [--svg] LOG...\n\n"
          "Reads what `zero-gpt2 --json LOG` has written in runs with other stages, ranks\n"
          "or placements, and prints the bytes that rank 0 reserved, by class, in MB (10^6\n"
          "bytes): a column for each tier of a run, in the order of the LOGs. --svg draws\n"
          "them as bars, a picture for a page:\n"
          "zero report memory --svg stage*.json > memory.svg\n\n"
          "The status is 0, 1 when a LOG cannot be read, 2 for bad use.\n",
          f);
}

static void table_print(const struct memory_columns *c)
{
    if (*c->title)
        printf("Memory of a rank in MB: %s\n", c->title);
    printf("%-14s", "");
    for (unsigned i = 0; i < c->n; i++)
        printf("  %16s", c->list[i].run);
    printf("\n%-14s", "class");
    for (unsigned i = 0; i < c->n; i++)
        printf("  %16s", c->list[i].tier);
    putchar('\n');
    for (unsigned k = 0; k < c->n_classes; k++) {
        printf("%-14s", c->classes[k]);
        for (unsigned i = 0; i < c->n; i++)
            if (c->list[i].bytes[k])
                printf("  %16.3f", (double)c->list[i].bytes[k] / 1e6);
            else
                printf("  %16s", "-");
        putchar('\n');
    }
    printf("%-14s", "all");
    for (unsigned i = 0; i < c->n; i++)
        printf("  %16.3f", (double)c->list[i].all / 1e6);
    putchar('\n');
}

int report_memory(int argc, char **argv)
{
    struct memory_columns columns = {0};
    bool svg = false;
    const struct tool_arg args[] = {TOOL_ARG("svg", ON, &svg)};
    int status = tool_args("report memory", args, 1, TOOL_WORDS, help, argc, argv);

    if (status >= 0)
        return status;
    if (optind == argc) {
        fputs("zero report memory: give the LOG of a run at least (zero-gpt2 --json LOG); --help "
              "tells more\n",
              stderr);
        return 2;
    }
    status = 0;
    for (int i = optind; i < argc && !status; i++)
        if (memory_log_read(argv[i], &columns)) {
            fprintf(stderr, "zero report memory: %s\n", zero__error_text());
            status = 1;
        }
    if (!status && columns.n > MOST_COLUMNS) {
        fprintf(stderr, "zero report memory: %u columns are too many to read: give fewer logs\n",
                columns.n);
        status = 2;
    }
    if (!status)
        svg ? memory_svg_write(&columns) : table_print(&columns);
    free(columns.list);
    return status;
}
