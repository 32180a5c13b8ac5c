/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "memory/nodes.h"

#include <inttypes.h>
#include <stdio.h>

#define ROOT "/sys/devices/system/node"
#define LIST_BYTES 8192 /* every other one of CPU_SETSIZE, with room to spare */

uint32_t zero__list_read(const char *list, cpu_set_t *set)
{
    uint32_t n = 0, first, last;
    int used;

    CPU_ZERO(set);
    for (;; list++) {
        if (sscanf(list, "%" SCNu32 "%n", &first, &used) != 1)
            return 0;
        list += used;
        last = first;
        if (*list == '-') {
            if (sscanf(++list, "%" SCNu32 "%n", &last, &used) != 1 || last < first)
                return 0;
            list += used;
        }
        n += last - first + 1;
        for (uint32_t i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, set);
        if (*list != ',')
            return *list && *list != '\n' ? 0 : n;
    }
}

/* 1: the file is there and what it says in `set`, which is empty when that is no list. */
static int file_read(const char *root, const char *name, cpu_set_t *set)
{
    char path[4096], list[LIST_BYTES];

    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (!fgets(list, sizeof list, f) || !zero__list_read(list, set))
        CPU_ZERO(set);
    fclose(f);
    return 1;
}

uint32_t zero__memory_nodes(const cpu_set_t *cores, const char *root)
{
    cpu_set_t nodes, own;
    uint32_t found = 0;
    char name[32];

    root = root ? root : ROOT;
    if (!file_read(root, "has_memory", &nodes))
        return 0;
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &nodes))
            continue;
        snprintf(name, sizeof name, "node%" PRIu32 "/cpulist", i);
        if (file_read(root, name, &own)) /* else maybe they are there */
            CPU_AND(&own, &own, cores);
        else
            own = *cores;
        if (CPU_COUNT(&own))
            found |= UINT32_C(1) << (i < 31 ? i : 31);
    }
    return found;
}
