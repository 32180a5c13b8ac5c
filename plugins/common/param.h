/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a plugin. What is no value of an option is -EINVAL, with a sentence that names the
 * variable, quotes what it is, and says what to give; the output is set only on success.
 */
#ifndef ZERO_PLUGINS_COMMON_PARAM_H
#define ZERO_PLUGINS_COMMON_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "voice.h"

#define ZERO__PARAM_VARIABLE 64

/* "ZERO_KEY", as people set it. */
const char *zero__param_variable(const char *key, char text[ZERO__PARAM_VARIABLE]);

/* Any text; see param() in plugin.h. */
static inline const char *zero__param_text(const struct zero__voice *v, const char *key,
                                           const char *dflt, const char *help)
{
    return v->host->param(v->host->ctx, v->plugin, key, dflt, help);
}

/* 0 or 1. */
int zero__param_flag(const struct zero__voice *v, const char *key, const char *dflt,
                     const char *help, bool *on);

/* A whole number from `least` to `most`. */
int zero__param_number(const struct zero__voice *v, const char *key, const char *dflt,
                       uint64_t least, uint64_t most, const char *help, uint64_t *n);

/* One of "a|b|c": which, from 0. */
int zero__param_word(const struct zero__voice *v, const char *key, const char *dflt,
                     const char *words, const char *help, int *which);

/* A whole number as digits, up to `end`, NULL: the end of the text. */
bool zero__digits_read(const char *text, const char *end, uint64_t least, uint64_t most,
                       uint64_t *n);

#endif
