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
    bool loading; /* what is below; who asks again meanwhile is a copy of the one above */
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

static struct zero__stack *stack_find(const struct zero__loader *loader, uint32_t kind,
                                      const char *above, const char *below)
{
    for (struct zero__stack *s = loader->stacks; s; s = s->next)
        if (s->kind == kind && strcmp(s->above, above) == 0 && strcmp(s->below, below) == 0)
            return s;
    return NULL;
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

/* Before anything is loaded: an entry that stood on itself would be called for ever. */
static int stack(struct zero__loader *loader, uint32_t kind, const char *above, const char *below,
                 struct zero__stack **out)
{
    struct zero__stack *s = stack_find(loader, kind, above, below);

    if (s ? s->loading : stands_on(loader, kind, below, above))
        return zero__fail(-ELOOP,
                          "the plugin %s stands on itself; below the last wrapper there must be a "
                          "plugin that does the work, and those above have names of their own",
                          above);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return zero__fail(-ENOMEM, "no memory for the plugin loader");
        s->kind = kind;
        strcpy(s->above, above);
        strcpy(s->below, below);
        s->next = loader->stacks;
        loader->stacks = s;
    }
    *out = s;
    return 0;
}

static void unstack(struct zero__loader *loader, struct zero__stack *s)
{
    struct zero__stack **link = &loader->stacks;

    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    free(s);
}

/* The plugin of that name under the one above, loaded. */
static int load(struct zero__loader *loader, uint32_t kind, const char *above, const char *name,
                struct zero__plugin **plugin)
{
    char below[ZERO__PLUGIN_NAME];
    struct zero__stack *s = NULL;
    int err = zero__plugin_name_check(above)
                  ? zero__fail(-EINVAL, "\"%.80s\" is no name of a plugin", above)
                  : zero__plugin_named(kind, name, below);

    if (!err)
        err = stack(loader, kind, above, below, &s);
    if (err)
        return err;
    s->loading = true;
    err = zero__loader_load(loader, kind, name, plugin);
    s->loading = false;
    if (err)
        unstack(loader, s);
    return err;
}

int zero__stand_on(void *ctx, const char *above, uint32_t kind, const char *option,
                   const char *name, void *ops)
{
    struct zero__plugin *p;
    size_t size;
    int err;

    memcpy(&size, ops, sizeof size);
    if (size < sizeof size || size > ZERO__PLUGIN_TABLE_MOST)
        return zero__fail(-EINVAL, "%s: the table for what is below says it is %zu bytes long",
                          above, size);
    err = load(ctx, kind, above, name, &p);
    if (err) /* -ENOENT from an entry would say that the file above is not there */
        return zero__while(err == -ENOENT ? -ENODEV : err, "%s is \"%.200s\"", option, name);
    memset(ops, 0, size);
    memcpy(ops, &p->ops, size < p->ops.size ? size : p->ops.size);
    memcpy(ops, &size, sizeof size);
    return 0;
}
