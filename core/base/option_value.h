/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the text of an option to its value. What an option allows is itself a text, in the table:
 *
 *     INT, REAL, BYTES   an interval "[low,high]", ")" excludes the end, an end left out is none;
 *                        in front of it words that stand for numbers, which the interval need not
 *                        contain: "auto=0 [0.1,]"
 *     CHOICE             "one|two|three"; the value is the index
 *     the others         nothing
 *
 * Parsing does not depend on the locale: an application with commas in its numbers reads 0.5 too.
 */
#ifndef ZERO_BASE_OPTION_VALUE_H
#define ZERO_BASE_OPTION_VALUE_H

#include <stddef.h>
#include <stdint.h>

enum zero__option_type {
    ZERO__INT,
    ZERO__REAL,
    ZERO__BYTES, /* K, M, G, T with or without iB or B: powers of 1024 */
    ZERO__BOOL,
    ZERO__CHOICE,
    ZERO__TEXT,
    ZERO__LIMIT,     /* see memory_limit.h */
    ZERO__PLACEMENT, /* see placement.h */
    ZERO__LEVELS,    /* see log.h */
};

/* The three-in-one value: integer of INT, BYTES, BOOL and CHOICE, real of these and REAL. */
struct zero__option_value {
    int64_t integer;
    double real;
};

/* Parses text; -EINVAL with what is allowed in why[bytes] when it is not. */
int zero__option_parse(enum zero__option_type type, const char *allowed, const char *text,
                       struct zero__option_value *value, char *why, size_t bytes);

/* What the option allows, for people: "a whole number from 0 to 3". */
void zero__option_allowed(enum zero__option_type type, const char *allowed, char *text,
                          size_t bytes);

#endif
