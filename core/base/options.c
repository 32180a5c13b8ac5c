/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table and its values. The settings of the sources are kept, because plugins ask for names of
 * their own later, and what nobody asked for is reported by zero__options_finish().
 */
#include "base/options.h"

#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/nearest.h"
#include "base/option_sources.h"
#include "base/option_value.h"
#include "base/status.h"

static const struct {
    const char *name, *default_value, *allowed, *group, *help;
    enum zero__option_type type;
} table[ZERO__N_OPTIONS] = {
#define ZERO__OPTION(id, name, type, dflt, allowed, group, help) \
    [ZERO__OPT_##id] = {#name, dflt, allowed, group, help, ZERO__##type},
#include "base/options_table.h"
#undef ZERO__OPTION
};

/* A parameter of a plugin. */
struct param {
    struct param *next;
    char *name, *owner, *default_value, *help;
    const char *value, *where;
};

struct zero__options {
    struct zero__sources sources;
    struct {
        const char *text, *where;
        char *chosen; /* owned copy of text, where the runtime chose */
        struct zero__option_value value;
    } values[ZERO__N_OPTIONS];
    bool finished;
    pthread_mutex_t lock; /* of params and of what is known */
    struct param *params;
};

/* The lock is no part of what const promises. */
static void options_lock(const struct zero__options *o)
{
    pthread_mutex_lock((pthread_mutex_t *)&o->lock);
}

static void options_unlock(const struct zero__options *o)
{
    pthread_mutex_unlock((pthread_mutex_t *)&o->lock);
}

/* Every setting is checked, also one that a stronger source overrides. */
static int value_set(struct zero__options *o, int id)
{
    char why[256];
    int err;

    o->values[id].text = table[id].default_value;
    o->values[id].where = "default";
    err = zero__option_parse(table[id].type, table[id].allowed, table[id].default_value,
                             &o->values[id].value, why, sizeof why);
    if (err)
        return zero__fail(err, "the default of %s is not allowed: %s", table[id].name, why);
    for (uint32_t i = 0; i < o->sources.n_settings; i++) {
        struct zero__source_setting *s = &o->sources.settings[i];
        if (strcmp(s->name, table[id].name) != 0)
            continue;
        s->known = true;
        err = zero__option_parse(table[id].type, table[id].allowed, s->value, &o->values[id].value,
                                 why, sizeof why);
        if (err)
            return zero__fail(err, "%s is not allowed: %s", s->shown, why);
        o->values[id].text = s->value;
        o->values[id].where = s->where;
    }
    return 0;
}

int zero__options_load(const struct zero_setting *settings, uint32_t n_settings,
                       struct zero__options **options)
{
    struct zero__options *o = calloc(1, sizeof *o);
    int err;

    if (!o)
        return zero__fail(-ENOMEM, "no memory for the options");
    pthread_mutex_init(&o->lock, NULL);
    err = zero__sources_load(settings, n_settings, &o->sources);
    for (int id = 0; id < ZERO__N_OPTIONS && !err; id++)
        err = value_set(o, id);
    if (err) {
        zero__options_free(o);
        return err;
    }
    *options = o;
    return 0;
}

static void param_free(struct param *p)
{
    free(p->name);
    free(p->owner);
    free(p->default_value);
    free(p->help);
    free(p);
}

void zero__options_free(struct zero__options *o)
{
    if (!o)
        return;
    zero__sources_free(&o->sources);
    for (int id = 0; id < ZERO__N_OPTIONS; id++)
        free(o->values[id].chosen);
    for (struct param *p = o->params, *next; p; p = next) {
        next = p->next;
        param_free(p);
    }
    pthread_mutex_destroy(&o->lock);
    free(o);
}

int64_t zero__option_int(const struct zero__options *o, enum zero__option_id id)
{
    return o->values[id].value.integer;
}

uint64_t zero__option_bytes(const struct zero__options *o, enum zero__option_id id)
{
    int64_t x = o->values[id].value.integer;
    return x < 0 ? 0 : (uint64_t)x;
}

double zero__option_real(const struct zero__options *o, enum zero__option_id id)
{
    return o->values[id].value.real;
}

int64_t zero__option_ns(const struct zero__options *o, enum zero__option_id id)
{
    return (int64_t)(zero__option_real(o, id) * 1e9);
}

void zero__option_levels(const struct zero__options *o, struct zero__log *log)
{
    zero__log_levels(log, zero__option_text(o, ZERO__OPT_LOG), NULL, 0);
}

void zero__option_limit(const struct zero__options *o, struct zero__memory_limit *limit)
{
    zero__memory_limit_parse(zero__option_text(o, ZERO__OPT_MEMORY_LIMIT), limit, NULL, 0);
}

const char *zero__option_text(const struct zero__options *o, enum zero__option_id id)
{
    return o->values[id].text;
}

static int id_find(const char *name)
{
    for (int id = 0; id < ZERO__N_OPTIONS; id++)
        if (strcmp(table[id].name, name) == 0)
            return id;
    return -1;
}

/* With the lock held. */
static struct param *param_find(const struct zero__options *o, const char *name)
{
    for (struct param *p = o->params; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

/* By name, parameters of plugins included: its value and where that comes from; NULL: unknown. */
static const char *look_up(const struct zero__options *o, const char *name, const char **where)
{
    int id = id_find(name);

    *where = id >= 0 ? o->values[id].where : NULL;
    if (id >= 0)
        return o->values[id].text;
    options_lock(o);
    const struct param *p = param_find(o, name);
    options_unlock(o);
    *where = p ? p->where : NULL;
    return p ? p->value : NULL;
}

const char *zero__option_find(const struct zero__options *o, const char *name)
{
    const char *where;
    return look_up(o, name, &where);
}

const char *zero__option_source(const struct zero__options *o, const char *name)
{
    const char *where;
    look_up(o, name, &where);
    return where;
}

int zero__option_is_programs(const struct zero__options *o, const char *name)
{
    for (uint32_t i = 0; i < o->sources.n_settings; i++)
        if (o->sources.settings[i].source == ZERO__FROM_PROGRAM &&
            strcmp(o->sources.settings[i].name, name) == 0)
            return 1;
    return 0;
}

const char *zero__option_variable(const char *name, char *text, size_t bytes)
{
    snprintf(text, bytes, "ZERO_%s", name);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return text;
}

const char *zero__option_how(const struct zero__options *o, const char *name, const char *value,
                             char *text, size_t bytes)
{
    if (zero__option_is_programs(o, name)) {
        snprintf(text, bytes, "%s=%s (the program sets it)", name, value);
        return text;
    }
    zero__option_variable(name, text, bytes);
    size_t n = strlen(text);
    snprintf(text + n, bytes - n, "=%s", value);
    return text;
}

int zero__options_choose(struct zero__options *o, enum zero__option_id id, const char *text)
{
    struct zero__option_value value;
    char why[256], *copy;
    int err = zero__option_parse(table[id].type, table[id].allowed, text, &value, why, sizeof why);

    if (err)
        return zero__fail(err, "%s=%s is not allowed: %s", table[id].name, text, why);
    copy = strdup(text);
    if (!copy)
        return zero__fail(-ENOMEM, "no memory for the options");
    free(o->values[id].chosen);
    o->values[id].text = o->values[id].chosen = copy;
    o->values[id].where = "chosen";
    o->values[id].value = value;
    return 0;
}

/* With the lock held. */
static struct param *param_create(struct zero__options *o, const char *owner, const char *name,
                                  const char *dflt, const char *help)
{
    struct param *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->name = strdup(name);
    p->owner = strdup(owner);
    p->help = strdup(help ? help : "");
    p->default_value = dflt ? strdup(dflt) : NULL;
    if (!p->name || !p->owner || !p->help || (dflt && !p->default_value)) {
        param_free(p);
        return NULL;
    }
    p->value = p->default_value;
    p->where = "default";
    for (uint32_t i = 0; i < o->sources.n_settings; i++) {
        struct zero__source_setting *s = &o->sources.settings[i];
        if (strcmp(s->name, name) == 0) {
            s->known = true;
            p->value = s->value;
            p->where = s->where;
        }
    }
    struct param **end = &o->params;
    while (*end)
        end = &(*end)->next;
    *end = p;
    return p;
}

const char *zero__options_param(struct zero__options *o, const char *owner, const char *name,
                                const char *dflt, const char *help)
{
    int id = id_find(name);
    if (id >= 0)
        return o->values[id].text;
    options_lock(o);
    struct param *p = param_find(o, name);
    if (!p)
        p = param_create(o, owner, name, dflt, help);
    options_unlock(o);
    return p ? p->value : NULL;
}

/* The known name nearest to an unknown one, NULL if none is near. With the lock held. */
static const char *nearest(const struct zero__options *o, const char *name)
{
    size_t len = strlen(name);
    unsigned limit = len < 6 ? 2 : (unsigned)(len / 3), best = limit + 1;
    const char *found = NULL;

    for (int id = 0; id < ZERO__N_OPTIONS; id++)
        if (zero__nearer(name, table[id].name, &best))
            found = table[id].name;
    for (const struct param *p = o->params; p; p = p->next)
        if (zero__nearer(name, p->name, &best))
            found = p->name;
    return found;
}

/* What to say about a setting that nobody knows; hint in the spelling of its source. */
static void unknown_print(const struct zero__options *o, const struct zero__source_setting *s,
                          char *text, size_t bytes)
{
    const bool prefixed = s->source == ZERO__FROM_PROGRAM && !strncasecmp(s->name, "ZERO_", 5);
    const char *bare = s->name + (prefixed ? 5 : 0), *near = nearest(o, bare);
    char name[128];

    if (near && s->source == ZERO__FROM_ENVIRONMENT)
        near = zero__option_variable(near, name, sizeof name);
    if (prefixed && near && !strcasecmp(near, bare))
        snprintf(text, bytes,
                 "%s is not known: write it in lower case and without ZERO_, like stage", s->shown);
    else if (near)
        snprintf(text, bytes, "%s is not known: the nearest option is %s", s->shown, near);
    else
        snprintf(text, bytes, "%s is not known: zero info --options lists all options", s->shown);
}

int zero__options_finish(struct zero__options *o, const struct zero__log *log, bool all_loaded,
                         const struct zero__option_others *others)
{
    int level = log && log->rank > 0 ? ZERO_LOG_DEBUG : ZERO_LOG_WARN, err = 0;
    char text[1600];

    options_lock(o);
    if (!o->finished && *o->sources.warning)
        zero__log(log, level, "options", "%s", o->sources.warning);
    for (uint32_t i = 0; !o->finished && i < o->sources.n_settings; i++) {
        const struct zero__source_setting *s = &o->sources.settings[i];
        if (s->known || (!all_loaded && !nearest(o, s->name)))
            continue;
        if (others && others->has(others->arg, s->name))
            continue;
        unknown_print(o, s, text, sizeof text);
        if (s->source == ZERO__FROM_PROGRAM)
            err = zero__fail(-EINVAL, "%s", text);
        else
            zero__log(log, level, "options", "%s", text);
    }
    o->finished = true;
    options_unlock(o);
    return err;
}

int zero__options_row(const struct zero__options *o, uint32_t index, struct zero__option_row *row)
{
    if (index < ZERO__N_OPTIONS) {
        *row = (struct zero__option_row){table[index].name,
                                         o->values[index].text,
                                         table[index].default_value,
                                         o->values[index].where,
                                         table[index].group,
                                         table[index].help,
                                         ""};
        zero__option_allowed(table[index].type, table[index].allowed, row->allowed,
                             sizeof row->allowed);
        return 0;
    }
    options_lock(o);
    const struct param *p = o->params;
    for (index -= ZERO__N_OPTIONS; p && index; index--)
        p = p->next;
    options_unlock(o);
    if (!p)
        return -ENOENT;
    *row = (struct zero__option_row){p->name,
                                     p->value ? p->value : "",
                                     p->default_value ? p->default_value : "",
                                     p->where,
                                     p->owner,
                                     p->help,
                                     ""};
    return 0;
}
