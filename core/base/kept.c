/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "machine/host.h"

#define KEPT 32u       /* lines, of so many keys */
#define MOST_LINES 256 /* that are read */
#define LINE 200
#define SUFFIX ".XXXXXX"
#define LEFT_S 60 /* a file that is written for so long has been left */
#define KEPT_S (30 * 24 * 3600) /* a line is believed for so long */

uint64_t zero__kept_key(const char *fmt, ...)
{
    char text[1000], machine[512];
    va_list ap;

    zero__host_tell(NULL, machine, sizeof machine);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return XXH3_64bits_withSeed(text, strlen(text), XXH3_64bits(machine, strlen(machine)));
}

/* -ENOENT: there is no place for it. */
static int file_path(char *path, size_t bytes, const char *file, int makes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int own = cache && *cache == '/';
    int n = own ? snprintf(path, bytes, "%s", cache)
                : snprintf(path, bytes, "%s/.cache", home && *home == '/' ? home : "");

    if ((!own && (!home || *home != '/')) || n < 0 || (size_t)n + strlen(file) + 16 > bytes)
        return -ENOENT;
    if (makes)
        mkdir(path, 0700);
    n += snprintf(path + n, bytes - (size_t)n, "/libzero");
    if (makes)
        mkdir(path, 0700);
    snprintf(path + n, bytes - (size_t)n, "/%s", file);
    return 0;
}

static int line_parse(const char *line, uint64_t *key, double *figures, uint32_t n)
{
    int64_t when, now = (int64_t)time(NULL);
    int used;

    if (sscanf(line, "%16" SCNx64 "%n", key, &used) != 1)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        line += used;
        if (sscanf(line, "%lf%n", &figures[i], &used) != 1 || !isfinite(figures[i]) ||
            figures[i] <= 0)
            return 0;
    }
    return sscanf(line + used, "%" SCNd64, &when) == 1 && when <= now && when > now - KEPT_S;
}

/* Lines of other keys are copied to `others`, if it is not NULL. 1: found. */
static int file_read(const char *path, uint64_t key, double *figures, uint32_t n, char *others)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), found = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    char line[LINE];
    uint32_t n_others = 0;

    for (int i = 0; f && i < MOST_LINES && fgets(line, sizeof line, f); i++) {
        double x[ZERO__KEPT_FIGURES];
        uint64_t k;
        if (!strchr(line, '\n') || !line_parse(line, &k, x, n))
            continue;
        if (k == key && !found) {
            memcpy(figures, x, n * sizeof *x);
            found = 1;
        } else if (k != key && others && n_others++ < KEPT - 1) {
            others += sprintf(others, "%s", line);
        }
    }
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return found;
}

/* An application may have numbers with commas; files are everybody's. What was in use before. */
static locale_t points_begin(locale_t *c)
{
    *c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *c ? uselocale(*c) : (locale_t)0;
}

static void points_end(locale_t c, locale_t before)
{
    if (!c)
        return;
    uselocale(before);
    freelocale(c);
}

int zero__kept_find(const char *file, uint64_t key, double *figures, uint32_t n)
{
    locale_t c, before = points_begin(&c);
    char path[1024];
    int found = c && n <= ZERO__KEPT_FIGURES && !file_path(path, sizeof path, file, 0) &&
                file_read(path, key, figures, n, NULL);

    points_end(c, before);
    return found;
}

/* `new`: a pattern, which becomes the name: nobody's who was killed before is in the way. */
static int new_write(char *new, uint64_t key, const double *figures, uint32_t n, const char *others)
{
    int fd = mkostemp(new, O_CLOEXEC), err = -errno; /* 0600 */
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

    if (!f) {
        err = fd < 0 ? err : -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    fprintf(f, "%016" PRIx64, key);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, " %.9g", figures[i]);
    fprintf(f, " %" PRId64 "\n%s", (int64_t)time(NULL), others);
    return fclose(f) ? -errno : 0;
}

/* What jobs that were killed while they wrote have left beside `path`; a writer takes no minute. */
static void old_remove(const char *path)
{
    const char *file = strrchr(path, '/') + 1;
    const size_t n = strlen(file);
    char folder[1024];
    struct stat st;

    snprintf(folder, sizeof folder, "%.*s", (int)(file - path), path);
    DIR *d = opendir(folder);
    int fd = d ? dirfd(d) : -1;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, file, n) == 0 && e->d_name[n] == '.' &&
            strlen(e->d_name) == n + sizeof SUFFIX - 1 &&
            !fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
            st.st_uid == geteuid() && st.st_mtime < time(NULL) - LEFT_S)
            unlinkat(fd, e->d_name, 0);
    if (d)
        closedir(d);
}

static int note(const char *file, uint64_t key, const double *figures, uint32_t n)
{
    char path[1024], new[1100], others[KEPT * LINE] = "";
    double old[ZERO__KEPT_FIGURES];
    int err = n > ZERO__KEPT_FIGURES ? -EINVAL : file_path(path, sizeof path, file, 1);

    if (err)
        return err;
    file_read(path, key, old, n, others);
    old_remove(path);
    snprintf(new, sizeof new, "%s" SUFFIX, path);
    err = new_write(new, key, figures, n, others);
    if (!err && rename(new, path))
        err = -errno;
    if (err)
        unlink(new);
    return err;
}

int zero__kept_note(const char *file, uint64_t key, const double *figures, uint32_t n)
{
    locale_t c, before = points_begin(&c);
    int err = c ? note(file, key, figures, n) : -ENOMEM;

    points_end(c, before);
    return err;
}
