/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is opened first and judged by its descriptor, so it cannot be exchanged in between; a
 * FIFO or device never blocks us.
 */
#define _GNU_SOURCE
#include "base/config_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

#define DEFAULT_PATH "zero.conf"

/* Cuts blanks off both ends of [*start, *end). */
static void trim(char **start, char **end)
{
    while (*start < *end && isspace((unsigned char)**start))
        ++*start;
    while (*end > *start && isspace((unsigned char)(*end)[-1]))
        --*end;
}

static char *comment_find(char *start, char *end)
{
    for (char *at = start; at < end; at++)
        if (*at == '#' && (at == start || isspace((unsigned char)at[-1])))
            return at;
    return end;
}

/* A name is what an option may be called: a-z, 0-9 and _, not empty, not too long. */
static bool name_good(const char *start, const char *end)
{
    if (start == end || end - start > 64)
        return false;
    for (; start < end; start++)
        if (!islower((unsigned char)*start) && !isdigit((unsigned char)*start) && *start != '_')
            return false;
    return true;
}

static int line_parse(struct zero__config_file *file, char *start, char *end, unsigned number)
{
    struct zero__config_line *line;

    end = comment_find(start, end);
    trim(&start, &end);
    if (start == end)
        return 0;
    char *equals = memchr(start, '=', (size_t)(end - start));
    if (!equals)
        return zero__fail(-EINVAL, "%s:%u: \"%.*s\" is not of the form name = value", file->path,
                          number, (int)(end - start > 60 ? 60 : end - start), start);
    char *name_end = equals, *value = equals + 1;
    trim(&start, &name_end);
    trim(&value, &end);
    if (!name_good(start, name_end))
        return zero__fail(-EINVAL,
                          "%s:%u: \"%.*s\" is no name of an option: write it in lower "
                          "case and without ZERO_, like stage",
                          file->path, number, (int)(name_end - start > 60 ? 60 : name_end - start),
                          start);
    if (file->n_lines == ZERO__CONFIG_LINES)
        return zero__fail(-EINVAL, "%s:%u: more than %d settings", file->path, number,
                          ZERO__CONFIG_LINES);
    *name_end = *end = 0;
    for (unsigned i = 0; i < file->n_lines; i++)
        if (strcmp(file->lines[i].name, start) == 0)
            return zero__fail(-EINVAL, "%s:%u: %s is set a second time; the first is in line %u",
                              file->path, number, start, file->lines[i].line);
    line = &file->lines[file->n_lines++];
    *line = (struct zero__config_line){start, value, number};
    return 0;
}

int zero__config_parse(const char *path, const char *text, size_t len,
                       struct zero__config_file *file)
{
    struct zero__config_file parsed = {0};
    unsigned number = 1;
    int err = -ENOMEM;

    if (len > ZERO__CONFIG_BYTES)
        return zero__fail(-EINVAL, "%s is larger than %d bytes: that is no configuration file",
                          path, ZERO__CONFIG_BYTES);
    parsed.path = strdup(path);
    parsed.text = malloc(len + 1);
    parsed.lines = calloc(ZERO__CONFIG_LINES, sizeof *parsed.lines);
    if (!parsed.path || !parsed.text || !parsed.lines) {
        zero__fail(err, "no memory to read %s", path);
        goto err_close;
    }
    memcpy(parsed.text, text, len);
    parsed.text[len] = 0;
    for (char *at = parsed.text, *end = at + len; at < end; number++) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *line_end = newline ? newline : end;
        if (memchr(at, 0, (size_t)(line_end - at))) {
            err = zero__fail(-EINVAL, "%s:%u: a zero byte: that is no text", path, number);
            goto err_close;
        }
        err = line_parse(&parsed, at, line_end, number);
        if (err)
            goto err_close;
        at = line_end + 1;
    }
    *file = parsed;
    return 0;

err_close:
    zero__config_close(&parsed);
    return err;
}

void zero__config_close(struct zero__config_file *file)
{
    free(file->path);
    free(file->text);
    free(file->lines);
    *file = (struct zero__config_file){0};
}

static int read_all(int fd, const char *path, struct zero__config_file *file)
{
    char *text = malloc(ZERO__CONFIG_BYTES + 1);
    size_t len = 0;
    ssize_t n = 0;
    int err;

    if (!text)
        return zero__fail(-ENOMEM, "no memory to read %s", path);
    while (len <= ZERO__CONFIG_BYTES &&
           (n = read(fd, text + len, ZERO__CONFIG_BYTES + 1 - len)) > 0)
        len += (size_t)n;
    err = n < 0 ? zero__fail(-errno, "cannot read %s: %m", path)
                : zero__config_parse(path, text, len, file);
    free(text);
    return err;
}

/* Could someone else have written what we are about to believe? Then why, else NULL. */
static const char *distrust(const struct stat *st)
{
    if (st->st_uid != geteuid())
        return "it belongs to another user";
    if (st->st_mode & S_IWOTH)
        return "everybody may write it (chmod o-w)";
    return NULL;
}

int zero__config_open(struct zero__config_file *file, char *warning, size_t bytes)
{
    const char *named = secure_getenv("ZERO_CONFIG");
    const char *path = named && *named ? named : DEFAULT_PATH;
    struct stat st;
    int err = 0, fd;

    *warning = 0;
    *file = (struct zero__config_file){0};
    if (getauxval(AT_SECURE))
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (path != named && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
            return 0;
        return zero__fail(-errno, "cannot open the configuration file %s%s: %m", path,
                          path == named ? " (named by ZERO_CONFIG)" : "");
    }
    if (fstat(fd, &st) < 0) {
        err = zero__fail(-errno, "cannot look at the configuration file %s: %m", path);
    } else if (!S_ISREG(st.st_mode)) {
        if (path == named)
            err = zero__fail(-EINVAL, "%s (named by ZERO_CONFIG) is no regular file", path);
    } else if (path != named && distrust(&st)) {
        snprintf(warning, bytes, "./%s is not read: %s", path, distrust(&st));
    } else {
        err = read_all(fd, path, file);
    }
    close(fd);
    return err;
}
