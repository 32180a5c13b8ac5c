/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "groups.h"

#include <stdio.h>
#include <string.h>

#define FOLDER 4096

/* The least that the group `name` below `top` and its ancestors give. */
static uint64_t least_of(const char *top, const char *name, bool first, zero__group_fn *gives)
{
    char folder[FOLDER];
    uint64_t least = UINT64_MAX;
    size_t base = strlen(top);

    if ((size_t)snprintf(folder, sizeof folder, "%s%s", top, name) >= sizeof folder)
        return least;
    for (;;) {
        uint64_t here = gives(folder, first);
        char *slash = strrchr(folder, '/');
        least = here < least ? here : least;
        if (!slash || slash < folder + base)
            return least;
        *slash = 0;
    }
}

/* Is it in a list like "cpu,cpuacct"? */
static bool is_listed(const char *list, const char *controller)
{
    size_t n = strlen(controller);

    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == n && strncmp(list, controller, n) == 0)
            return true;
    return false;
}

uint64_t zero__groups_least(const char *root, const char *controller, zero__group_fn *gives)
{
    uint64_t least = UINT64_MAX, here;
    char line[FOLDER], top[512];

    snprintf(top, sizeof top, "%s/proc/self/cgroup", root);
    FILE *f = fopen(top, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        bool first = name[1] != 0;
        if (first && !is_listed(name + 1, controller))
            continue;
        snprintf(top, sizeof top, "%s/sys/fs/cgroup%s%s", root, first ? "/" : "",
                 first ? controller : "");
        here = least_of(top, path, first, gives);
        least = here < least ? here : least;
    }
    if (f)
        fclose(f);
    return least;
}
