/* SPDX-License-Identifier: Apache-2.0 */
/* Optimal string alignment with three rows on the stack. */
#include "base/nearest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define LONGEST 64

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned zero__distance(const char *a, const char *b)
{
    unsigned rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    size_t n = strlen(a), m = strlen(b);

    if (n > LONGEST || m > LONGEST)
        return UINT_MAX;
    for (size_t j = 0; j <= m; j++)
        before[j] = last[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned d = last[j - 1] + !same(a[i - 1], b[j - 1]);
            d = least(d, least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                d = least(d, before[j - 2] + 1);
            row[j] = d;
        }
        unsigned *oldest = before;
        before = last, last = row, row = oldest;
    }
    return last[m];
}

bool zero__nearer(const char *a, const char *b, unsigned *best)
{
    unsigned d = zero__distance(a, b);

    if (d >= *best)
        return false;
    *best = d;
    return true;
}
