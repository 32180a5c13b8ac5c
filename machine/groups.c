/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "machine/groups.h"

#include <stdio.h>
#include <string.h>

/* The narrowest so far. */
struct least {
    uint64_t value;
    char *folder; /* NULL: nobody asks */
};

/* The group `name` below `top` and its ancestors. */
static void look(struct least *l, const char *top, const char *name, bool first,
                 zero__group_fn *gives)
{
    char folder[ZERO__GROUP_FOLDER];
    size_t base = strlen(top);

    if ((size_t)snprintf(folder, sizeof folder, "%s%s", top, name) >= sizeof folder)
        return;
    for (;;) {
        uint64_t here = gives(folder, first);
        char *slash = strrchr(folder, '/');
        if (here < l->value) {
            l->value = here;
            if (l->folder)
                memcpy(l->folder, folder, strlen(folder) + 1);
        }
        if (!slash || slash < folder + base)
            return;
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

uint64_t zero__groups_least(const char *root, const char *controller, zero__group_fn *gives,
                            char *folder)
{
    struct least l = {UINT64_MAX, folder};
    char line[ZERO__GROUP_FOLDER], top[512];

    if (folder)
        folder[0] = 0;
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
        look(&l, top, path, first, gives);
    }
    if (f)
        fclose(f);
    return l.value;
}
