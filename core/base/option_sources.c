/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the sources once; programs that run with raised rights have neither file nor environment.
 */
#define _GNU_SOURCE
#include "base/option_sources.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/config_file.h"
#include "base/grow.h"
#include "base/status.h"

/* Adds a setting; `shown` is given as a format. */
__attribute__((format(printf, 6, 7))) static int
setting_add(struct zero__sources *s, enum zero__source source, const char *name, const char *value,
            const char *where, const char *shown, ...)
{
    va_list ap;

    if (zero__grow(&s->settings, &s->room, s->n_settings, sizeof *s->settings))
        return zero__fail(-ENOMEM, "no memory for the options");
    struct zero__source_setting *set = &s->settings[s->n_settings++];
    *set = (struct zero__source_setting){source,        false, strdup(name),
                                         strdup(value), NULL,  strdup(where)};
    va_start(ap, shown);
    if (vasprintf(&set->shown, shown, ap) < 0)
        set->shown = NULL;
    va_end(ap);
    if (!set->name || !set->value || !set->shown || !set->where)
        return zero__fail(-ENOMEM, "no memory for the options");
    return 0;
}

static int file_add(struct zero__sources *s)
{
    struct zero__config_file file;
    int err = zero__config_open(&file, s->warning, sizeof s->warning);

    for (unsigned i = 0; !err && i < file.n_lines; i++) {
        const struct zero__config_line *line = &file.lines[i];
        char where[1024];
        snprintf(where, sizeof where, "file %.1000s:%u", file.path, line->line);
        err =
            setting_add(s, ZERO__FROM_FILE, line->name, line->value, where,
                        "%.1000s:%u: %s = %.200s", file.path, line->line, line->name, line->value);
    }
    zero__config_close(&file);
    return err;
}

/* Names that are no options but belong to the project: where to look, tests, the launcher. */
static bool reserved(const char *name)
{
    return strcmp(name, "config") == 0 || strncmp(name, "test_", 5) == 0 ||
           strncmp(name, "job", 3) == 0;
}

/*
 * The option's name of a variable: STAGE is stage. A variable with small letters is no option; its
 * name becomes STAGE, which no option has, but which is still near to one.
 */
static void variable_name(const char *variable, size_t n, char *name)
{
    bool small = false;

    for (size_t i = 0; i < n; i++)
        small |= islower((unsigned char)variable[i]) != 0;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)(small ? toupper((unsigned char)variable[i])
                               : tolower((unsigned char)variable[i]));
    name[n] = 0;
}

static int environment_add(struct zero__sources *s)
{
    char name[128];
    int err = 0;

    if (getauxval(AT_SECURE))
        return 0;
    for (char **env = environ; env && *env && !err; env++) {
        const char *equals = strchr(*env, '=');
        if (strncmp(*env, "ZERO_", 5) != 0 || !equals || !equals[1])
            continue; /* an empty variable counts as not set */
        size_t n = (size_t)(equals - *env) - 5;
        if (n >= sizeof name)
            continue; /* longer than any name of ours, and than any slip of the pen */
        variable_name(*env + 5, n, name);
        if (!reserved(name))
            err = setting_add(s, ZERO__FROM_ENVIRONMENT, name, equals + 1, "environment", "%.300s",
                              *env);
    }
    return err;
}

static int program_add(struct zero__sources *s, const struct zero_setting *settings, uint32_t n)
{
    int err = 0;

    if (n && !settings)
        return zero__fail(-EINVAL, "n_settings is %u, but settings is NULL", n);
    for (uint32_t i = 0; i < n && !err; i++) {
        const char *name = settings[i].name, *value = settings[i].value;
        if (!name || !value)
            return zero__fail(-EINVAL, "setting %u has no name or no value", i);
        err = setting_add(s, ZERO__FROM_PROGRAM, name, value, "program",
                          "%.100s=%.200s, passed by the program,", name, value);
    }
    return err;
}

int zero__sources_load(const struct zero_setting *settings, uint32_t n_settings,
                       struct zero__sources *sources)
{
    struct zero__sources s = {0};
    int err = file_add(&s);

    if (!err)
        err = environment_add(&s);
    if (!err)
        err = program_add(&s, settings, n_settings);
    if (err) {
        zero__sources_free(&s);
        return err;
    }
    *sources = s;
    return 0;
}

void zero__sources_free(struct zero__sources *s)
{
    for (uint32_t i = 0; i < s->n_settings; i++) {
        free(s->settings[i].name);
        free(s->settings[i].value);
        free(s->settings[i].shown);
        free(s->settings[i].where);
    }
    free(s->settings);
    *s = (struct zero__sources){0};
}
