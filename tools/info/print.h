/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `zero info`. */
#ifndef ZERO_TOOLS_INFO_PRINT_H
#define ZERO_TOOLS_INFO_PRINT_H

#include <stdint.h>

#include "base/log.h"
#include "base/options.h"

/* Bytes for people, "23.4 GiB"; in text[32]. */
void info_bytes(uint64_t bytes, char text[32]);

/* Processor, NUMA nodes, memory and limits. */
void info_machine(void);

/* Prints text in lines as wide as the terminal; `at` columns of the first are printed already. */
void info_wrapped(const char *text, int at, int indent);

/* Of each option of a plugin, in the order of a listing, the kind of the plugin that asked. */
struct info_kinds {
    const char **of;
    uint32_t n, room;
};

enum info_plugins {
    INFO_NONE, /* only asks every plugin, so that its own options become known */
    INFO_SHORT,
    INFO_WHOLE,
};

/*
 * Everything that the loader finds, and why one cannot be used. 0, or 1 after a line on standard
 * error. *kinds is freed by the caller, by its `of`.
 */
int info_plugins(struct zero__options *options, const struct zero__log *log,
                 enum info_plugins how, struct info_kinds *kinds);

#endif
