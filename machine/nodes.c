/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "machine/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "machine/line.h"

#define ROOT "/sys/devices/system/node"
#define LIST_BYTES 8192 /* every other one of ZERO__CORES_MOST, with room to spare */

/* Is the file there? What it says in `set`, which is empty when that is no list. */
static bool file_read(const char *root, const char *name, struct zero__cores *set)
{
    char path[4096], list[LIST_BYTES];

    snprintf(path, sizeof path, "%s/%s", root, name);
    if (!zero__line_read(path, "", list, sizeof list))
        return false;
    if (!zero__cores_read(set, list))
        memset(set, 0, sizeof *set);
    return true;
}

static bool has_any(const struct zero__cores *a, const struct zero__cores *b)
{
    uint64_t both = 0;

    for (uint32_t i = 0; i < ZERO__CORES_MOST / 64; i++)
        both |= a->bits[i] & b->bits[i];
    return both != 0;
}

uint32_t zero__memory_nodes(const struct zero__cores *cores, const char *root)
{
    struct zero__cores nodes, own; /* numbers of nodes are written as those of processors */
    uint32_t found = 0;
    char name[32];

    root = root ? root : ROOT;
    if (!file_read(root, "has_memory", &nodes))
        return 0;
    for (uint32_t i = 0; i < ZERO__CORES_MOST; i++) {
        if (!zero__cores_has(&nodes, i))
            continue;
        snprintf(name, sizeof name, "node%" PRIu32 "/cpulist", i);
        if (!file_read(root, name, &own) || has_any(&own, cores)) /* not there: maybe */
            found |= UINT32_C(1) << (i < 31 ? i : 31);
    }
    return found;
}
