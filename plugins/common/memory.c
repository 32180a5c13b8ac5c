/* SPDX-License-Identifier: Apache-2.0 */
/* The figures are the kernel's own; what cannot be read does not limit. */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "groups.h"

#define PIECE (UINT64_C(64) << 20)
#define RESERVE (UINT64_C(32) << 20) /* left to everybody else */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* First number after `key` at the start of a line of the file; key "" is the file's first number.
 */
static int read_number(const char *path, const char *key, uint64_t *value)
{
    char line[256];
    size_t n = strlen(key);
    int err = -ENOENT;
    FILE *f = fopen(path, "re");

    if (!f)
        return -errno;
    while (err && fgets(line, sizeof line, f)) {
        char *end;
        if (strncmp(line, key, n) != 0)
            continue;
        errno = 0;
        unsigned long long x = strtoull(line + n, &end, 10);
        if (end != line + n && errno == 0) {
            *value = x;
            err = 0;
        } else if (!*key) {
            break; /* "max" */
        }
    }
    fclose(f);
    return err;
}

static uint64_t machine_room(void)
{
    uint64_t kib;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib) || kib > UINT64_MAX / 1024)
        return UINT64_MAX;
    return kib * 1024;
}

/* What the two versions of control groups call their files. */
struct group_names {
    const char *max, *now, *active, *inactive;
};
static const struct group_names names_v2 = {"memory.max", "memory.current", "active_file ",
                                            "inactive_file "};
static const struct group_names names_v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                            "total_active_file ", "total_inactive_file "};

/* What a control group leaves; its page cache can be given up. */
static uint64_t group_room(const char *folder, bool first_version)
{
    const struct group_names *names = first_version ? &names_v1 : &names_v2;
    char path[4096 + 32];
    uint64_t max, now, cache = 0, part;

    snprintf(path, sizeof path, "%s/%s", folder, names->max);
    if (read_number(path, "", &max))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, names->now);
    if (read_number(path, "", &now))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (read_number(path, names->inactive, &part) == 0)
        cache += part;
    if (read_number(path, names->active, &part) == 0)
        cache += part;
    now = now > cache ? now - cache : 0;
    return max > now ? max - now : 0;
}

uint64_t zero__memory_available(void)
{
    uint64_t machine = machine_room(), groups = zero__groups_least("", "memory", group_room);

    return machine < groups ? machine : groups;
}

/* Writes to every page, after the file has them: for kernels before 5.14. */
static int touch(char *base, uint64_t off, uint64_t bytes, int fd)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    while (fd >= 0 && fallocate(fd, 0, (off_t)off, (off_t)bytes))
        if (errno != EINTR)
            return errno == ENOSPC ? -ENOMEM : -errno;
    for (uint64_t i = off; i < off + bytes; i += page)
        ((volatile char *)base)[i] = 0;
    return 0;
}

static int fill_piece(char *base, uint64_t off, uint64_t bytes, int fd)
{
    while (madvise(base + off, bytes, MADV_POPULATE_WRITE)) {
        if (errno == EINVAL)
            return touch(base, off, bytes, fd);
        if (errno != EINTR && errno != EAGAIN)
            return errno == EFAULT ? -ENOMEM : -errno;
    }
    return 0;
}

int zero__memory_fill(void *base, uint64_t bytes, int fd)
{
    madvise(base, bytes, MADV_HUGEPAGE); /* a wish */
    for (uint64_t done = 0, n; done < bytes; done += n) {
        uint64_t room = zero__memory_available();
        int err;

        n = bytes - done < PIECE ? bytes - done : PIECE;
        if (room < bytes - done || room - (bytes - done) < RESERVE)
            return -ENOMEM;
        err = fill_piece(base, done, n, fd);
        if (err)
            return err;
    }
    return 0;
}
