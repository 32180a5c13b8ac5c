/* SPDX-License-Identifier: Apache-2.0 */
/* What ZERO_FAULT and ZERO_FAULT_IO have in common: ACTION[=VALUE][:KEY=VALUE]..., in a row. */
#ifndef ZERO_TESTS_FAULT_WORDS_H
#define ZERO_TESTS_FAULT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "plugins/common/voice.h"

#define FAULT_MOST 16
#define FAULT_TEXT 96 /* bytes of one fault */
#define FAULT_DELAY_MOST_MS 3600000

/* Reads fault number i, from text that may be written to; returns what is wrong, or NULL. */
typedef const char *zero__fault_one(void *faults, int i, char *text);

/*
 * Has `one` read the faults of a variable, at most FAULT_MOST. Returns how many they are, or
 * -EINVAL with a sentence that quotes the first that is wrong and ends with `help`.
 */
int zero__fault_list(const struct zero__voice *voice, const char *variable, const char *text,
                     const char *help, zero__fault_one *one, void *faults);

/* Which of n words it is, -1: none. */
int zero__fault_word(const char *word, const char *const *list, int n);

/* The positive errno of that name or number. */
bool zero__fault_errno(const char *text, uint64_t *x);

/* Takes a word, and its value or NULL; returns what is wrong, or NULL. */
typedef const char *zero__fault_reader(void *arg, const char *word, const char *value);

/* Hands out the words of a text, which is written to, up to the first that is wrong. */
const char *zero__fault_words(char *text, zero__fault_reader *action, zero__fault_reader *key,
                              void *arg);

#endif
