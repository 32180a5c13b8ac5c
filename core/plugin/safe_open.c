/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin runs with all rights of the program, so nobody else may be able to have put it there:
 * neither by writing to the file nor by exchanging it, a folder above it or a link on the way. So
 * the path is walked name by name, and every folder looked at in which one of them is; who loads
 * the file compares with the descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/internal.h"

#define MOST_LINKS 40 /* as for the kernel */

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

/* Whoever may write to it may exchange what is there on the way to the file. */
static int check_folder(const struct zero__log *log, const char *file, const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return zero__fail(-errno, "%s: cannot look at the folder: %m", path);
    if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        return zero__fail(-EPERM,
                          "%s: everybody may write to the folder %s, so the plugin is not to "
                          "be trusted: chmod o-w %s",
                          file, path, path);
    if (!(st.st_mode & S_IWOTH))
        warn_owner(log, path, &st);
    return 0;
}

/* The way to a file. */
struct way {
    const char *file;
    char gone[PATH_MAX]; /* so far, without links; "": at the root */
    char left[PATH_MAX]; /* what is to be gone from there */
    uint32_t links;
};

static int too_long(const struct way *w)
{
    return zero__fail(-ENAMETOOLONG, "%.200s…: the path is too long", w->file);
}

/* `gone` is a link: its target is to be gone now, then `rest`; `folder`: length of its folder. */
static int link_follow(struct way *w, size_t folder, const char *rest)
{
    const size_t n_rest = strlen(rest);
    char target[PATH_MAX];
    ssize_t n = readlink(w->gone, target, sizeof target);

    if (n < 0)
        return zero__fail(-errno, "%s: cannot read the link %s: %m", w->file, w->gone);
    if (++w->links > MOST_LINKS)
        return zero__fail(-ELOOP, "%s: there are more than %d links on the way", w->file,
                          MOST_LINKS);
    if ((size_t)n + n_rest >= sizeof w->left)
        return too_long(w);
    memmove(w->left + n, rest, n_rest + 1);
    memcpy(w->left, target, (size_t)n);
    w->gone[n && target[0] == '/' ? 0 : folder] = 0;
    return 0;
}

/* Goes on by the first name of what is left, which is n bytes at `at`. */
static int way_step(const struct zero__log *log, struct way *w, const char *at, size_t n)
{
    const size_t folder = strlen(w->gone);
    const char *rest = at + n;
    struct stat st;
    int err = check_folder(log, w->file, folder ? w->gone : "/");

    if (err)
        return err;
    if (folder + 1 + n >= sizeof w->gone)
        return too_long(w);
    w->gone[folder] = '/';
    memcpy(w->gone + folder + 1, at, n);
    w->gone[folder + 1 + n] = 0;
    if (lstat(w->gone, &st))
        return zero__fail(-errno, "%s: cannot look at %s: %m", w->file, w->gone);
    if (S_ISLNK(st.st_mode))
        return link_follow(w, folder, rest);
    memmove(w->left, rest, strlen(rest) + 1);
    return 0;
}

/* Every folder on the way, that of links included; `gone` is the path without these then. */
static int check_way(const struct zero__log *log, struct way *w, const char *file)
{
    int err = 0;

    *w = (struct way){.file = file};
    if (strlen(file) >= sizeof w->left)
        return too_long(w);
    strcpy(w->left, file);
    while (!err) {
        const char *at = w->left + strspn(w->left, "/");
        const size_t n = strcspn(at, "/");
        char *slash = strrchr(w->gone, '/');
        if (!n)
            break;
        const bool up = n == 2 && !memcmp(at, "..", n);
        if (!up && !(n == 1 && *at == '.')) {
            err = way_step(log, w, at, n);
            continue;
        }
        if (up && slash)
            *slash = 0;
        memmove(w->left, at + n, strlen(at + n) + 1);
    }
    return err;
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
    struct way way;
    int err, f;

    f = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (f < 0)
        return errno == ENOENT ? -ENOENT : zero__fail(-errno, "%s: cannot open: %m", path);
    err = check_file(log, f, path);
    if (!err)
        err = path_of(f, path, &where);
    if (!err)
        err = check_way(log, &way, path);
    if (!err && strcmp(way.gone, where) != 0)
        err = check_way(log, &way, where);
    if (err) {
        free(where);
        close(f);
        return err;
    }
    *fd = f;
    *real = where;
    return 0;
}
