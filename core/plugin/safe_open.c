/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin runs with all rights of the program, so nobody else may be able to have put it there:
 * neither by writing to the file nor by exchanging it or a folder above it. The path as given and
 * the path behind its links are both looked at, and who loads it compares with the descriptor.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/internal.h"

static void warn_owner(const struct zero__log *log, const char *path, const struct stat *st)
{
    if (st->st_uid != 0 && st->st_uid != geteuid())
        zero__log(log, ZERO_LOG_WARN, "plugin", "%s belongs to user %u, who can replace plugins",
                  path, (unsigned)st->st_uid);
    else if ((st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != geteuid()) /* own group */
        zero__log(log, ZERO_LOG_WARN, "plugin",
                  "%s is writable by group %u, whose members can replace plugins", path,
                  (unsigned)st->st_gid);
}

/* Every folder above the file. */
static int check_ancestors(const struct zero__log *log, const char *file)
{
    char path[PATH_MAX];
    struct stat st;
    char *slash;

    if ((size_t)snprintf(path, sizeof path, "%s", file) >= sizeof path)
        return zero__fail(-ENAMETOOLONG, "%.200s…: the path is too long", file);
    while ((slash = strrchr(path, '/'))) {
        slash[slash == path] = 0;
        if (stat(path, &st))
            return zero__fail(-errno, "%s: cannot look at the folder: %m", path);
        if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
            return zero__fail(-EPERM,
                              "%s: everybody may write to the folder %s, so the plugin is not to "
                              "be trusted: chmod o-w %s",
                              file, path, path);
        if (!(st.st_mode & S_IWOTH))
            warn_owner(log, path, &st);
        if (slash == path)
            break;
    }
    return 0;
}

static int check_file(const struct zero__log *log, int fd, const char *path)
{
    struct stat st;

    if (fstat(fd, &st))
        return zero__fail(-errno, "%s: cannot look at the file: %m", path);
    if (!S_ISREG(st.st_mode))
        return zero__fail(-EINVAL, "%s: not a regular file", path);
    if (st.st_mode & S_IWOTH)
        return zero__fail(-EPERM,
                          "%s: everybody may write to the plugin, so it is not to be trusted: "
                          "chmod o-w %s",
                          path, path);
    warn_owner(log, path, &st);
    return 0;
}

/* The path that the descriptor has now. */
static int path_of(int fd, const char *path, char **real)
{
    char link[64], text[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, text, sizeof text - 1);
    if (n <= 0 || text[0] != '/')
        return zero__fail(-EIO, "%s: cannot find its real path; is /proc mounted?", path);
    text[n] = 0;
    *real = strdup(text);
    return *real ? 0 : zero__fail(-ENOMEM, "no memory for the path of a plugin");
}

int zero__safe_open(const struct zero__log *log, const char *path, int *fd, char **real)
{
    char *where = NULL;
    int err, f;

    f = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (f < 0)
        return errno == ENOENT ? -ENOENT : zero__fail(-errno, "%s: cannot open: %m", path);
    err = check_file(log, f, path);
    if (!err)
        err = path_of(f, path, &where);
    if (!err)
        err = check_ancestors(log, where);
    if (!err && strcmp(path, where) != 0)
        err = check_ancestors(log, path);
    if (err) {
        free(where);
        close(f);
        return err;
    }
    *fd = f;
    *real = where;
    return 0;
}
