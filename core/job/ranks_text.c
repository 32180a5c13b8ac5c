/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sets of ranks for people: "1, 3-6, 9". What does not fit ends in "...". */
#include <stdio.h>

#include "job/internal.h"
#include "machine/clock.h"

int zero__ranks_text(struct zero__job *job, bool (*is)(struct zero__job *job, int32_t rank),
                     char *text, size_t room)
{
    int32_t n = job->params.ranks, first = -1;
    size_t used = 0;

    text[0] = 0;
    for (int32_t r = 0; r < n; r++) {
        int32_t last = r;
        char range[40];
        if (!is(job, r))
            continue;
        while (last + 1 < n && is(job, last + 1))
            last++;
        int k = last == r ? snprintf(range, sizeof range, "%s%d", used ? ", " : "", r)
                          : snprintf(range, sizeof range, "%s%d-%d", used ? ", " : "", r, last);
        if (first < 0)
            first = r;
        if (used + (size_t)k + 4 >= room) {
            snprintf(text + used, room - used, "...");
            break;
        }
        used += (size_t)snprintf(text + used, room - used, "%s", range);
        r = last;
    }
    return first;
}
