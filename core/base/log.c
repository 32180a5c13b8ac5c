/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are put together on the stack, without a lock: a line of standard error leaves in one
 * write(), so lines of ranks and threads do not mix.
 */
#define _GNU_SOURCE
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "machine/text.h"

#define TEXT_BYTES 4096
#define LINES_BYTES 8192

static const char *const level_names[] = {"none", "error", "warn", "info", "debug", "trace"};
#define N_LEVELS ((int)(sizeof level_names / sizeof level_names[0]))

static int level_of(const char *text, size_t len)
{
    for (int i = 0; i < N_LEVELS; i++)
        if (strlen(level_names[i]) == len && memcmp(level_names[i], text, len) == 0)
            return i;
    return -1;
}

static int entry_parse(struct zero__log *log, const char *entry, size_t len, char *why,
                       size_t bytes)
{
    const char *colon = memchr(entry, ':', len);
    const char *word = colon ? colon + 1 : entry;
    size_t word_len = len - (size_t)(word - entry), name_len = len - word_len - (colon != NULL);
    int level = level_of(word, word_len);

    if (level < 0) {
        snprintf(why, bytes,
                 "\"%.*s\" is no level; levels are none, error, warn, info, debug and "
                 "trace, alone or as component:level, separated by commas",
                 (int)(word_len > 40 ? 40 : word_len), word);
        return -EINVAL;
    }
    if (!colon) {
        log->level = level;
        return 0;
    }
    if (!name_len || name_len >= sizeof log->components[0].name) {
        snprintf(why, bytes, "a component's name has 1 to %zu characters",
                 sizeof log->components[0].name - 1);
        return -EINVAL;
    }
    if (log->n_components == ZERO__LOG_COMPONENTS) {
        snprintf(why, bytes, "at most %d components can be named", ZERO__LOG_COMPONENTS);
        return -EINVAL;
    }
    memcpy(log->components[log->n_components].name, entry, name_len);
    log->components[log->n_components].name[name_len] = 0;
    log->components[log->n_components++].level = level;
    return 0;
}

int zero__log_levels(struct zero__log *log, const char *spec, char *why, size_t bytes)
{
    struct zero__log parsed = *log;

    parsed.level = ZERO_LOG_WARN;
    parsed.n_components = 0;
    while (*spec) {
        size_t len = strcspn(spec, ",");
        int err = entry_parse(&parsed, spec, len, why, bytes);
        if (err)
            return err;
        spec += len;
        if (*spec == ',')
            spec++;
    }
    *log = parsed;
    return 0;
}

bool zero__log_shows(const struct zero__log *log, int level, const char *component)
{
    if (!log)
        return false;
    for (unsigned i = log->n_components; i-- > 0;)
        if (strcmp(log->components[i].name, component) == 0)
            return level <= log->components[i].level;
    return level <= log->level;
}

/* Text from outside must not move the cursor of a terminal nor forge a line; tabs are blanks. */
static void clean(char *line)
{
    for (char *c = line; (c = strchr(c, '\t'));)
        *c = ' ';
    zero__text_clean(line, strlen(line) + 1);
}

static void emit(const struct zero__log *log, int level, const char *lines, size_t len)
{
    if (log->sink) {
        log->sink(log->sink_arg, level, lines);
        return;
    }
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, lines, len);
        if (n < 0 && errno != EINTR)
            return; /* there is nowhere to report it */
        if (n > 0) {
            lines += n;
            len -= (size_t)n;
        }
    }
}

static bool enter(struct zero__log_gate *gate)
{
    if (!gate)
        return true;
    atomic_fetch_add(&gate->calls, 1);
    return !atomic_load(&gate->shut);
}

static void leave(struct zero__log_gate *gate)
{
    if (gate)
        atomic_fetch_sub(&gate->calls, 1);
}

void zero__log(const struct zero__log *log, int level, const char *component, const char *fmt, ...)
{
    char text[TEXT_BYTES], lines[LINES_BYTES], prefix[64];
    int saved = errno;
    va_list ap;

    if (!zero__log_shows(log, level, component))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (log->rank >= 0)
        snprintf(prefix, sizeof prefix, "zero: rank %d: %.24s: ", log->rank, component);
    else
        snprintf(prefix, sizeof prefix, "zero: %.24s: ", component);

    size_t used = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && used < sizeof lines - 1;) {
        if (rest == NULL && !*line && line != text)
            break; /* the message ended with a newline */
        clean(line);
        int n = snprintf(lines + used, sizeof lines - used, "%s%s\n", prefix, line);
        used += n < 0 ? 0 : (size_t)n;
    }
    if (used > sizeof lines - 1) { /* cut, but still lines */
        used = sizeof lines - 1;
        lines[used - 1] = '\n';
    }
    if (log->sink && used) /* a sink gets lines without the last newline */
        lines[--used] = 0;
    if (enter(log->gate))
        emit(log, level, lines, used);
    leave(log->gate);
    errno = saved;
}

void zero__log_shut(struct zero__log_gate *gate)
{
    const struct timespec pause = {0, 1000000};

    atomic_store(&gate->shut, 1);
    for (int i = 0; i < 1000 && atomic_load(&gate->calls); i++)
        nanosleep(&pause, NULL);
}
