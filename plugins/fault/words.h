/* SPDX-License-Identifier: Apache-2.0 */
/* What ZERO_FAULT and ZERO_FAULT_IO have in common: ACTION[=VALUE][:KEY=VALUE]..., in a row. */
#ifndef ZERO_PLUGINS_FAULT_WORDS_H
#define ZERO_PLUGINS_FAULT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#define FAULT_DELAY_MOST_MS 3600000

/* The positive errno of that name or number. */
bool zero__fault_errno(const char *text, uint64_t *x);

/* Takes a word, and its value or NULL; returns what is wrong, or NULL. */
typedef const char *zero__fault_reader(void *arg, const char *word, const char *value);

/* Hands out the words of a text, which is written to, up to the first that is wrong. */
const char *zero__fault_words(char *text, zero__fault_reader *action, zero__fault_reader *key,
                              void *arg);

#endif
