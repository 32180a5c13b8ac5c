/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which disk a file lies on: two file systems may share one, as its partitions, or as volumes that
 * something makes of it.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "nvme.h"

#define MOST_LAYERS 8 /* of volumes on volumes */

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return !access(path, F_OK);
}

/* What a volume is made of, if that is one thing. */
static bool only_slave(const char *folder, char *slave, size_t bytes)
{
    char path[PATH_MAX + 32];
    struct dirent *e;
    int n = 0;

    snprintf(path, sizeof path, "%s/slaves", folder);
    DIR *d = opendir(path);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && n++ == 0)
            snprintf(slave, bytes, "/sys/class/block/%s", e->d_name);
    if (d)
        closedir(d);
    return n == 1;
}

void zero__nvme_disk_find(dev_t device, char *disk, size_t bytes)
{
    char path[PATH_MAX], at[PATH_MAX], *name;

    *disk = 0;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(device), minor(device));
    for (int i = 0; i < MOST_LAYERS && realpath(path, at); i++) {
        if (exists(at, "partition"))
            *strrchr(at, '/') = 0;
        name = strrchr(at, '/') + 1;
        snprintf(disk, bytes, "%s", name);
        if (!only_slave(at, path, sizeof path))
            return;
    }
    if (!*disk) /* a file system of many disks, or of none: it stands for itself */
        snprintf(disk, bytes, "%u:%u", major(device), minor(device));
}
