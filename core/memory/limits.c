/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MemAvailable of the machine, and for every control group from this process's own to the root,
 * limit minus use (file cache that can be dropped does not count as use). Both versions of control
 * groups; what cannot be read limits nothing.
 */
#include "memory/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GROUP_ROOT "/sys/fs/cgroup"

/* Reads the number after `key` in a file, or the first number when key is empty; 0 if it is there.
 */
static int number_read(const char *path, const char *key, uint64_t *value)
{
    char line[256];
    size_t n = strlen(key);
    int err = -1;
    FILE *f = fopen(path, "re");

    if (!f)
        return -1;
    while (err && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && sscanf(line + n, " %" SCNu64, value) == 1)
            err = 0;
    fclose(f);
    return err;
}

static const char *const caches[2][2] = {{"total_inactive_file ", "total_active_file "},
                                         {"inactive_file ", "active_file "}};

static void group_look(const char *dir, int v2, uint64_t *left, char *source, uint32_t bytes)
{
    char path[1200];
    uint64_t limit, use, cache = 0;

    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
    if (number_read(path, "", &limit) || limit >= UINT64_MAX / 4)
        return;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (number_read(path, "", &use))
        return;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    for (int i = 0; i < 2; i++) { /* the page cache can be given up, as on the whole machine */
        uint64_t part;
        if (!number_read(path, caches[v2 != 0][i], &part))
            cache += part;
    }
    use = use > cache ? use - cache : 0;
    limit = limit > use ? limit - use : 0;
    if (limit < *left) {
        *left = limit;
        snprintf(source, bytes, "control group %s", dir);
    }
}

/* The group and everything above it. */
static void groups_look(const char *root, const char *group, int v2, uint64_t *left, char *source,
                        uint32_t bytes)
{
    char dir[1024];

    snprintf(dir, sizeof dir, "%s%s", root, group);
    for (;;) {
        group_look(dir, v2, left, source, bytes);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < strlen(root))
            return;
        *slash = 0;
    }
}

uint64_t zero__memory_left(char *source, uint32_t source_bytes)
{
    char line[1024];
    uint64_t left = UINT64_MAX, kib;

    snprintf(source, source_bytes, "the system");
    if (number_read("/proc/meminfo", "MemAvailable:", &kib) == 0 && kib < UINT64_MAX / 1024) {
        left = kib * 1024;
        snprintf(source, source_bytes, "the machine");
    }
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return left;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *group = strchr(line, ':');
        group = group ? strchr(group + 1, ':') : NULL;
        if (!group)
            continue;
        if (strncmp(line, "0::", 3) == 0)
            groups_look(GROUP_ROOT, group + 1, 1, &left, source, source_bytes);
        else if (strstr(line, ":memory:"))
            groups_look(GROUP_ROOT "/memory", group + 1, 0, &left, source, source_bytes);
    }
    fclose(f);
    return left;
}
