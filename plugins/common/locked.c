/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel compares the limit with two sums: mlock() with what the process has locked, io_uring
 * with what all processes of the user have registered. CAP_IPC_LOCK is above both.
 */
#define _GNU_SOURCE
#include "locked.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_privileged(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return !syscall(SYS_capget, &header, data) && data[0].effective & 1u << CAP_IPC_LOCK;
}

uint64_t zero__locked_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || is_privileged())
        return UINT64_MAX;
    return limit.rlim_cur;
}

/* The number of KiB behind `key` in a file of /proc; 0: it is not there. */
static uint64_t kib_of(const char *path, const char *key)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), "%llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

uint64_t zero__locked_now(void)
{
    return kib_of("/proc/self/status", "VmLck:") * 1024;
}

bool zero__swap_is_there(void)
{
    return kib_of("/proc/meminfo", "SwapTotal:") > 0;
}

const char *zero__locked_remedy(uint64_t bytes, char text[ZERO__LOCKED_REMEDY])
{
    unsigned long long kib = bytes / 1024 + (bytes % 1024 != 0);

    snprintf(text, ZERO__LOCKED_REMEDY,
             "ulimit -l %llu in the shell, memlock %llu in /etc/security/limits.conf, "
             "LimitMEMLOCK=%lluK in a service of systemd",
             kib, kib, kib);
    return text;
}
