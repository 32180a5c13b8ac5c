/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All sources of options as one list of settings, the weaker first: configuration file, ZERO_*
 * environment, program. A name's last setting counts. Knows nothing of which options exist.
 */
#ifndef ZERO_BASE_OPTION_SOURCES_H
#define ZERO_BASE_OPTION_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include <zero/zero.h>

enum zero__source { ZERO__FROM_FILE, ZERO__FROM_ENVIRONMENT, ZERO__FROM_PROGRAM };

struct zero__source_setting {
    enum zero__source source;
    bool known; /* somebody asked for it */
    char *name; /* as options are called: lower case, without ZERO_ */
    char *value;
    char *shown; /* what errors say: "ZERO_STAGE=7", "zero.conf:3: stage = 7" */
    char *where; /* what listings say: "environment", "file zero.conf:3" */
};

struct zero__sources {
    struct zero__source_setting *settings;
    uint32_t n_settings, room;
    char warning[256]; /* about the file; empty: none */
};

/* Fills *sources; the caller ends them with zero__sources_free(). */
int zero__sources_load(const struct zero_setting *settings, uint32_t n_settings,
                       struct zero__sources *sources);
void zero__sources_free(struct zero__sources *sources);

#endif
