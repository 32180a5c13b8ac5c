/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel compares the limit with two sums: mlock() with what the process has locked, io_uring
 * with what all processes of the user have registered. CAP_IPC_LOCK is above both.
 */
#define _GNU_SOURCE
#include "locked.h"

#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine/line.h"

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

uint64_t zero__locked_now(void)
{
    uint64_t kib = 0;

    zero__number_read("/proc/self/status", "VmLck:", &kib);
    return kib * 1024;
}

bool zero__swap_is_there(void)
{
    uint64_t kib = 0;

    zero__number_read("/proc/meminfo", "SwapTotal:", &kib);
    return kib > 0;
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
