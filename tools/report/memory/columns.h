/* SPDX-License-Identifier: Apache-2.0 */
/* What runs reserved, by class: columns of a table, or bars of a picture. */
#ifndef ZERO_TOOLS_REPORT_MEMORY_COLUMNS_H
#define ZERO_TOOLS_REPORT_MEMORY_COLUMNS_H

#include <stdint.h>

#define MEMORY_CLASSES 16u
#define MEMORY_NAME 32u

/* One tier of one run. */
struct memory_column {
    char run[MEMORY_NAME]; /* "stage 3, N = 4" */
    char tier[MEMORY_NAME];
    uint64_t bytes[MEMORY_CLASSES]; /* of a rank, by class */
    uint64_t all;
};

struct memory_columns {
    struct memory_column *list;
    unsigned n, n_classes;
    char classes[MEMORY_CLASSES][MEMORY_NAME]; /* in the order in which they were met */
    char title[128];                           /* what all runs have in common */
};

/* Adds the columns of a log that zero-gpt2 --json has written. 0 or a negative errno, with a
 * sentence. */
int memory_log_read(const char *path, struct memory_columns *to);

/* Writes a picture in SVG, of its own and without scripts, to the standard output. */
void memory_svg_write(const struct memory_columns *c);

#endif
