/* SPDX-License-Identifier: Apache-2.0 */
/* Read anew each time: the figures change, and nobody asks on the way of a step. */
#include "machine/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool zero__line_read(const char *path, const char *key, char *text, size_t room)
{
    size_t n = strlen(key);
    bool found = false;
    FILE *f = fopen(path, "re");

    while (f && !found && fgets(text, (int)room, f))
        found = strncmp(text, key, n) == 0;
    if (f)
        fclose(f);
    text[found ? strcspn(text, "\n") : 0] = 0;
    return found;
}

bool zero__number_read(const char *path, const char *key, uint64_t *value)
{
    char line[256], *number = line + strlen(key), *end;
    unsigned long long x;

    if (!zero__line_read(path, key, line, sizeof line))
        return false;
    errno = 0;
    x = strtoull(number, &end, 10);
    if (end == number || errno)
        return false;
    *value = x;
    return true;
}
