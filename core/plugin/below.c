/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plugin that stands on another one gets from the loader. Which stands on which is kept,
 * since nobody else could tell that wrappers go round in a circle: one asks in its entry, another
 * in its probe, each for the next.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin/internal.h"

struct zero__stack {
    struct zero__stack *next;
    uint32_t kind;
    char above[ZERO__PLUGIN_NAME], below[ZERO__PLUGIN_NAME];
};

void zero__stacks_free(struct zero__loader *loader)
{
    while (loader->stacks) {
        struct zero__stack *next = loader->stacks->next;
        free(loader->stacks);
        loader->stacks = next;
    }
}

/* Does the plugin `above` stand on `below`, or on what does? It ends: there are no circles. */
static bool stands_on(const struct zero__loader *loader, uint32_t kind, const char *above,
                      const char *below)
{
    if (strcmp(above, below) == 0)
        return true;
    for (const struct zero__stack *s = loader->stacks; s; s = s->next)
        if (s->kind == kind && strcmp(s->above, above) == 0 &&
            stands_on(loader, kind, s->below, below))
            return true;
    return false;
}

static int stack_keep(struct zero__loader *loader, uint32_t kind, const char *above,
                      const char *below)
{
    for (struct zero__stack *s = loader->stacks; s; s = s->next)
        if (s->kind == kind && strcmp(s->above, above) == 0 && strcmp(s->below, below) == 0)
            return 0;
    struct zero__stack *s = calloc(1, sizeof *s);
    if (!s)
        return zero__fail(-ENOMEM, "no memory for the plugin loader");
    s->kind = kind;
    strcpy(s->above, above);
    strcpy(s->below, below);
    s->next = loader->stacks;
    loader->stacks = s;
    return 0;
}

/* Before anything is loaded: an entry that stood on itself would be called for ever. */
static int stack(struct zero__loader *loader, const char *above, uint32_t kind, const char *name)
{
    char below[ZERO__PLUGIN_NAME];
    uint32_t found;

    if (*name == '/') {
        if (zero__file_name_parse(strrchr(name, '/') + 1, &found, below))
            return 0; /* loading it says what is wrong */
    } else {
        if (zero__plugin_name_check(name))
            return 0;
        strcpy(below, name);
    }
    if (strlen(above) >= ZERO__PLUGIN_NAME)
        return zero__fail(-EINVAL, "\"%.80s…\" is no name of a plugin", above);
    if (stands_on(loader, kind, below, above))
        return zero__fail(-ELOOP,
                          "the plugin %s stands on itself; below the last wrapper there must be a "
                          "plugin that does the work",
                          above);
    return stack_keep(loader, kind, above, below);
}

int zero__stand_on(struct zero__loader *loader, const char *above, uint32_t kind,
                   const char *option, const char *name, void *ops)
{
    struct zero__plugin *p;
    size_t size;
    int err;

    memcpy(&size, ops, sizeof size);
    if (size < sizeof size)
        return zero__fail(-EINVAL, "%s: a table of %zu bytes has no room for its size", above,
                          size);
    err = zero__kind_name(kind) ? stack(loader, above, kind, name) : 0;
    if (!err)
        err = zero__loader_load(loader, kind, name, &p);
    if (err) /* -ENOENT from an entry would say that the file above is not there */
        return zero__while(err == -ENOENT ? -ENODEV : err, "%s is \"%.200s\"", option, name);
    memset(ops, 0, size);
    memcpy(ops, &p->ops, size < p->ops.size ? size : p->ops.size);
    memcpy(ops, &size, sizeof size);
    return 0;
}
