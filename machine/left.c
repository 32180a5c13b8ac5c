/* SPDX-License-Identifier: Apache-2.0 */
/* The figures are the kernel's own; what cannot be read does not limit. */
#define _GNU_SOURCE
#include "machine/left.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#include "machine/groups.h"
#include "machine/line.h"

/* What the two versions of control groups call their files. */
static const struct group_names {
    const char *max, *now, *cache[2];
} names[] = {
    {"memory.max", "memory.current", {"active_file ", "inactive_file "}},
    {"memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file ", "total_inactive_file "}},
};

/* What a control group leaves; its page cache can be given up, as that of the machine. */
static uint64_t group_left(const char *folder, bool first_version)
{
    const struct group_names *name = &names[first_version];
    char path[ZERO__GROUP_FOLDER + 32];
    uint64_t max, now, cache = 0, part;

    snprintf(path, sizeof path, "%s/%s", folder, name->max);
    if (!zero__number_read(path, "", &max))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, name->now);
    if (!zero__number_read(path, "", &now))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    for (int i = 0; i < 2; i++)
        if (zero__number_read(path, name->cache[i], &part))
            cache += part;
    now = now > cache ? now - cache : 0;
    return max > now ? max - now : 0;
}

uint64_t zero__memory_left(char *source, uint32_t bytes)
{
    char folder[ZERO__GROUP_FOLDER];
    uint64_t groups = zero__groups_least("", "memory", group_left, folder), left = UINT64_MAX, kib;
    const char *who = "the system";

    if (zero__number_read("/proc/meminfo", "MemAvailable:", &kib) && kib <= UINT64_MAX / 1024) {
        left = kib * 1024;
        who = "the machine";
    }
    if (groups < left && source)
        snprintf(source, bytes, "control group %s", folder);
    else if (source)
        snprintf(source, bytes, "%s", who);
    return groups < left ? groups : left;
}

uint64_t zero__file_most(void)
{
    struct rlimit most;

    return getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                            : most.rlim_cur;
}
