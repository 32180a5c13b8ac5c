/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char more[] = " …";

void zero__listing_put(struct zero__listing *l, const char *fmt, ...)
{
    size_t left = l->room - l->used;
    va_list ap;

    if (l->full || left < sizeof more)
        return;
    left -= sizeof more - 1; /* which must still fit behind it */
    va_start(ap, fmt);
    int n = vsnprintf(l->text + l->used, left, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < left) {
        l->used += (size_t)n;
        return;
    }
    memcpy(l->text + l->used, more, sizeof more);
    l->used += sizeof more - 1;
    l->full = true;
}
