/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which disk a file lies on: two file systems may share one, as its partitions, or as volumes that
 * something makes of it; and what looks like two may be one.
 */
#include <dirent.h>
#include <limits.h>
#include <linux/magic.h>
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

/*
 * Subvolumes of one btrfs, datasets of one ZFS pool and overlays have a device number each. All
 * subvolumes have the first half of their f_fsid from the file system. A dataset has as much left
 * as its pool, and an overlay says of itself what is true of the file system below it.
 */
bool zero__nvme_space_is_one(const struct nvme_space *a, const struct nvme_space *b)
{
    unsigned long type = zero__nvme_type(&a->fs), other = zero__nvme_type(&b->fs);
    bool is_as_free = a->fs.f_bavail == b->fs.f_bavail;

    if (a->device == b->device)
        return true;
    if (type == OVERLAYFS_SUPER_MAGIC || other == OVERLAYFS_SUPER_MAGIC)
        return is_as_free && a->fs.f_blocks == b->fs.f_blocks;
    if (type == BTRFS_SUPER_MAGIC && other == type)
        return !memcmp(&a->fs.f_fsid, &b->fs.f_fsid, sizeof a->fs.f_fsid / 2);
    return is_as_free && type == NVME_ZFS_MAGIC && other == type;
}
