/* SPDX-License-Identifier: Apache-2.0 */
/* The memory files of libzero that processes hold, by inode: open or mapped. */
#ifndef ZERO_TESTS_MEMFDS_H
#define ZERO_TESTS_MEMFDS_H

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMFD_NAME "memfd:zero-"

static int memfds_mapped(const char *pid, uint64_t *inodes, int room)
{
    char path[64], line[512];
    int n = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%.20s/maps", pid);
    f = fopen(path, "r");
    while (f && n < room && fgets(line, sizeof line, f))
        if (strstr(line, MEMFD_NAME) &&
            sscanf(line, "%*s %*s %*s %*s %" SCNu64, &inodes[n]) == 1)
            n++;
    if (f)
        fclose(f);
    return n;
}

static int memfds_open(const char *pid, uint64_t *inodes, int room)
{
    char path[320], name[64];
    struct dirent *e;
    struct stat s;
    int n = 0;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    d = opendir(path);
    while (d && n < room && (e = readdir(d))) {
        snprintf(path, sizeof path, "/proc/%.20s/fd/%.200s", pid, e->d_name);
        ssize_t len = readlink(path, name, sizeof name - 1);
        name[len > 0 ? len : 0] = 0;
        if (strstr(name, MEMFD_NAME) && !stat(path, &s))
            inodes[n++] = s.st_ino;
    }
    if (d)
        closedir(d);
    return n;
}

/* Of a process ("self" or a number); some come twice. Returns their number. */
static int memfds_of(const char *pid, uint64_t *inodes, int room)
{
    int n = memfds_mapped(pid, inodes, room);
    return n + memfds_open(pid, inodes + n, room - n);
}

/* How many of the inodes some process of this machine holds, as far as one may look. */
static int memfds_alive(const uint64_t *inodes, int n)
{
    static uint64_t held[4096];
    DIR *d = opendir("/proc");
    struct dirent *e;
    int alive = 0;

    while (d && (e = readdir(d))) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        int k = memfds_of(e->d_name, held, 4096);
        for (int i = 0; i < k; i++)
            for (int j = 0; j < n; j++)
                if (held[i] == inodes[j]) {
                    alive++;
                    break;
                }
    }
    if (d)
        closedir(d);
    return alive;
}

#endif
