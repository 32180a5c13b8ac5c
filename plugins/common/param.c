/* SPDX-License-Identifier: Apache-2.0 */
#include "param.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "listing.h"

#define LIST 128 /* bytes of what an option may be */

const char *zero__param_variable(const char *key, char text[ZERO__PARAM_VARIABLE])
{
    snprintf(text, ZERO__PARAM_VARIABLE, "ZERO_%s", key);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return text;
}

int zero__param_flag(const struct zero__voice *v, const char *key, const char *dflt,
                     const char *help, bool *on)
{
    int which = 0, err = zero__param_word(v, key, dflt, "0|1", help, &which);

    if (!err)
        *on = which == 1;
    return err;
}

int zero__param_number(const struct zero__voice *v, const char *key, const char *dflt,
                       uint64_t least, uint64_t most, const char *help, uint64_t *n)
{
    const char *text = zero__param_text(v, key, dflt, help);
    char name[ZERO__PARAM_VARIABLE];

    if (zero__digits_read(text, NULL, least, most, n))
        return 0;
    zero__param_variable(key, name);
    if (most == UINT64_MAX)
        return zero__say(v, -EINVAL, "%s is \"%.64s\": give a whole number from %llu on", name,
                         text, (unsigned long long)least);
    return zero__say(v, -EINVAL, "%s is \"%.64s\": give a number from %llu to %llu", name, text,
                     (unsigned long long)least, (unsigned long long)most);
}

/* Which of "a|b|c" it is; -1: none. */
static int word_find(const char *words, const char *text)
{
    size_t n = strlen(text), len;

    for (int i = 0;; i++, words += len + 1) {
        len = strcspn(words, "|");
        if (len == n && memcmp(words, text, n) == 0)
            return i;
        if (!words[len])
            return -1;
    }
}

/* "a|b|c" as "a, b or c". */
static void words_list(const char *words, char list[LIST])
{
    struct zero__listing l = {.text = list, .room = LIST};
    const char *end, *last = strrchr(words, '|');

    for (; (end = strchr(words, '|')); words = end + 1)
        zero__listing_put(&l, "%.*s%s", (int)(end - words), words, end == last ? " or " : ", ");
    zero__listing_put(&l, "%s", words);
}

int zero__param_word(const struct zero__voice *v, const char *key, const char *dflt,
                     const char *words, const char *help, int *which)
{
    const char *text = zero__param_text(v, key, dflt, help);
    char name[ZERO__PARAM_VARIABLE], list[LIST];
    int found = word_find(words, text);

    if (found >= 0) {
        *which = found;
        return 0;
    }
    words_list(words, list);
    return zero__say(v, -EINVAL, "%s is \"%.64s\": give %s", zero__param_variable(key, name), text,
                     list);
}

bool zero__digits_read(const char *text, const char *end, uint64_t least, uint64_t most,
                       uint64_t *n)
{
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long x = strtoull(text, &stop, 10);
    if (errno || (end ? stop != end : *stop != 0) || x < least || x > most)
        return false;
    *n = x;
    return true;
}
