/* SPDX-License-Identifier: Apache-2.0 */
/* Read anew each time: the figures change, and nobody asks on the way of a step. */
#include "machine/number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool zero__number_read(const char *path, const char *key, uint64_t *value)
{
    char line[256], *end;
    size_t n = strlen(key);
    bool found = false;
    FILE *f = fopen(path, "re");

    while (f && !found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, n) != 0)
            continue;
        errno = 0;
        unsigned long long x = strtoull(line + n, &end, 10);
        found = end != line + n && errno == 0;
        if (found)
            *value = x;
        if (!*key)
            break;
    }
    if (f)
        fclose(f);
    return found;
}
