/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/number.h"
#include "base/placement.h"

/* An interval of the table, with its words before it. */
struct interval {
    struct zero__option_value low, high;
    bool has_low, has_high, open_high;
    char low_text[32], high_text[32];
};

static int number_parse(enum zero__option_type type, const char *text,
                        struct zero__option_value *value)
{
    int err;

    if (type == ZERO__REAL)
        return zero__real_parse(text, &value->real);
    err = type == ZERO__INT ? zero__int_parse(text, &value->integer)
                            : zero__bytes_parse(text, &value->integer);
    if (!err)
        value->real = (double)value->integer;
    return err;
}

static void interval_parse(enum zero__option_type type, const char *allowed, struct interval *iv)
{
    const char *at = allowed + strcspn(allowed, "[");

    memset(iv, 0, sizeof *iv);
    if (!*at)
        return;
    size_t n = strcspn(++at, ",");
    snprintf(iv->low_text, sizeof iv->low_text, "%.*s", (int)n, at);
    at += n + (at[n] == ',');
    n = strcspn(at, "])");
    snprintf(iv->high_text, sizeof iv->high_text, "%.*s", (int)n, at);
    iv->open_high = at[n] == ')';
    iv->has_low = *iv->low_text && !number_parse(type, iv->low_text, &iv->low);
    iv->has_high = *iv->high_text && !number_parse(type, iv->high_text, &iv->high);
}

static int compare(enum zero__option_type type, const struct zero__option_value *a,
                   const struct zero__option_value *b)
{
    if (type == ZERO__REAL)
        return (a->real > b->real) - (a->real < b->real);
    return (a->integer > b->integer) - (a->integer < b->integer);
}

static bool interval_has(enum zero__option_type type, const struct interval *iv,
                         const struct zero__option_value *value)
{
    if (iv->has_low && compare(type, value, &iv->low) < 0)
        return false;
    if (iv->has_high) {
        int c = compare(type, value, &iv->high);
        if (c > 0 || (c == 0 && iv->open_high))
            return false;
    }
    return true;
}

/* Is `text` one of the words before the interval? Then *value is its number. */
static bool word_find(const char *allowed, const char *text, struct zero__option_value *value)
{
    size_t len = strlen(text);

    for (const char *at = allowed; len && isalnum((unsigned char)*at);) {
        size_t word = strcspn(at, "="), all = strcspn(at, " ");
        if (word == len && memcmp(at, text, len) == 0) {
            value->integer = strtoll(at + word + 1, NULL, 10);
            value->real = (double)value->integer;
            return true;
        }
        at += all + strspn(at + all, " ");
    }
    return false;
}

static int choice_parse(const char *allowed, const char *text, int64_t *index)
{
    size_t len = strlen(text);
    int64_t i = 0;

    for (const char *at = allowed;; i++) {
        size_t n = strcspn(at, "|");
        if (n == len && memcmp(at, text, n) == 0) {
            *index = i;
            return 0;
        }
        if (!at[n])
            return -EINVAL;
        at += n + 1;
    }
}

static int bool_parse(const char *text, int64_t *value)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};

    for (int i = 0; i < 8; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *value = i & 1;
            return 0;
        }
    }
    return -EINVAL;
}

static int numeric_parse(enum zero__option_type type, const char *allowed, const char *text,
                         struct zero__option_value *value)
{
    struct interval iv;

    if (word_find(allowed, text, value))
        return 0;
    interval_parse(type, allowed, &iv);
    if (number_parse(type, text, value) || !interval_has(type, &iv, value))
        return -EINVAL;
    return 0;
}

int zero__option_parse(enum zero__option_type type, const char *allowed, const char *text,
                       struct zero__option_value *value, char *why, size_t bytes)
{
    struct zero__option_value parsed = {0, 0};
    struct zero__placement placement;
    struct zero__memory_limit limit;
    struct zero__log log = {0};
    int err = 0;

    switch (type) {
    case ZERO__INT:
    case ZERO__REAL:
    case ZERO__BYTES:
        err = numeric_parse(type, allowed, text, &parsed);
        break;
    case ZERO__BOOL:
        err = bool_parse(text, &parsed.integer);
        break;
    case ZERO__CHOICE:
        err = choice_parse(allowed, text, &parsed.integer);
        break;
    case ZERO__TEXT:
        break;
    case ZERO__LIMIT:
        return zero__memory_limit_parse(text, &limit, why, bytes);
    case ZERO__PLACEMENT:
        return zero__placement_parse(text, &placement, why, bytes);
    case ZERO__LEVELS:
        return zero__log_levels(&log, text, why, bytes);
    }
    if (err) {
        zero__option_allowed(type, allowed, why, bytes);
        return err;
    }
    *value = parsed;
    return 0;
}

/* "dynamic or " and the like, from the words in front of an interval; returns its length. */
static size_t words_print(const char *allowed, char *text, size_t bytes)
{
    size_t used = 0;

    while (isalnum((unsigned char)*allowed) && used < bytes) {
        size_t word = strcspn(allowed, "="), all = strcspn(allowed, " ");
        used += (size_t)snprintf(text + used, bytes - used, "%.*s or ", (int)word, allowed);
        allowed += all + strspn(allowed + all, " ");
    }
    return used < bytes ? used : bytes - 1;
}

static void interval_print(enum zero__option_type type, const char *allowed, char *text,
                           size_t bytes)
{
    static const char *const what[] = {"a whole number", "a number",
                                       "a number of bytes (K, M, G, T: powers of 1024)"};
    struct interval iv;
    size_t used = words_print(allowed, text, bytes);

    text += used, bytes -= used;
    interval_parse(type, allowed, &iv);
    if (iv.has_low && iv.has_high)
        snprintf(text, bytes, "%s from %s %s %s", what[type], iv.low_text,
                 iv.open_high ? "to less than" : "to", iv.high_text);
    else if (iv.has_low)
        snprintf(text, bytes, "%s, %s or more", what[type], iv.low_text);
    else
        snprintf(text, bytes, "%s", what[type]);
}

/* "one of a, b, c" from "a|b|c". */
static void choices_print(const char *allowed, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "one of ");

    for (; *allowed && used + 2 < bytes; allowed++) {
        text[used++] = *allowed == '|' ? ',' : *allowed;
        if (*allowed == '|')
            text[used++] = ' ';
    }
    if (used < bytes)
        text[used] = 0;
}

void zero__option_allowed(enum zero__option_type type, const char *allowed, char *text,
                          size_t bytes)
{
    switch (type) {
    case ZERO__INT:
    case ZERO__REAL:
    case ZERO__BYTES:
        interval_print(type, allowed, text, bytes);
        break;
    case ZERO__BOOL:
        snprintf(text, bytes, "yes or no (also 1 0, on off, true false)");
        break;
    case ZERO__CHOICE:
        choices_print(allowed, text, bytes);
        break;
    case ZERO__TEXT:
        snprintf(text, bytes, "text");
        break;
    case ZERO__LIMIT:
        snprintf(text, bytes, "device:BYTES and cpu:BYTES, separated by a comma");
        break;
    case ZERO__PLACEMENT:
        snprintf(text, bytes,
                 "auto, or parameters, gradients, optimizer or activations, a colon and a tier; "
                 "several separated by commas");
        break;
    case ZERO__LEVELS:
        snprintf(text, bytes,
                 "none, error, warn, info, debug or trace, alone or as "
                 "component:level, separated by commas");
        break;
    }
}
