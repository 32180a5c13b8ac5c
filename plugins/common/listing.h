/* SPDX-License-Identifier: Apache-2.0 */
/* A list for people in a place of fixed size; one that does not fit ends in " …", never in a word.
 */
#ifndef ZERO_PLUGINS_LISTING_H
#define ZERO_PLUGINS_LISTING_H

#include <stdbool.h>
#include <stddef.h>

struct zero__listing {
    char *text; /* always ends in 0 */
    size_t room, used;
    bool full; /* more was to come */
};

/* Appends one item, whole or not at all; after the first that has no room nothing is appended. */
void zero__listing_put(struct zero__listing *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
