/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a test, where it runs, and what is left there, also of files without a name, which
 * live as long as they are open.
 */
#ifndef ZERO_TESTS_FOLDER_H
#define ZERO_TESTS_FOLDER_H

#include "../tap.h"

#include <dirent.h>

/* `path`: where its absolute name goes. */
static inline void folder_make(const char *test, char path[4096])
{
    char name[64];

    snprintf(name, sizeof name, "%s-test-XXXXXX", test);
    if (!mkdtemp(name) || !realpath(name, path))
        bail("no folder for the test's files");
}

/* Names in the folder, and files below it that this process has open. `path`: absolute. */
static inline int files_left(const char *path)
{
    const char *const where[] = {path, "/proc/self/fd"};
    char link[64 + sizeof((struct dirent *)0)->d_name], target[4096];
    int left = 0;

    for (int open = 0; open < 2; open++) {
        DIR *dir = opendir(where[open]);
        struct dirent *d;
        while (dir && (d = readdir(dir))) {
            if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
                continue;
            snprintf(link, sizeof link, "/proc/self/fd/%s", d->d_name);
            ssize_t n = open ? readlink(link, target, sizeof target - 1) : 0;
            target[n > 0 ? n : 0] = 0;
            left += !open || !strncmp(target, path, strlen(path));
        }
        if (dir)
            closedir(dir);
    }
    return left;
}

static inline void folder_end(const char *path)
{
    is_int(files_left(path), 0, "nothing stays on the disk");
    rmdir(path);
}

#endif
