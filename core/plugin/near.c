/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin that somebody may have meant who asked for one that is not there, by its name. */
#include <dirent.h>
#include <string.h>

#include "base/nearest.h"
#include "plugin/internal.h"

struct search {
    const char *name;
    unsigned best; /* distance of what was found, or one more than is near */
    char *found;
};

static void look_at(struct search *s, const char *name)
{
    if (strlen(name) < ZERO__PLUGIN_NAME && zero__nearer(s->name, name, &s->best))
        strcpy(s->found, name);
}

static void look_into(struct search *s, const char *dir, uint32_t kind)
{
    DIR *d = opendir(dir);
    char name[ZERO__PLUGIN_NAME];
    uint32_t k;

    for (const struct dirent *e; d && (e = readdir(d));)
        if (!zero__file_name_parse(e->d_name, &k, name) && k == kind)
            look_at(s, name);
    if (d)
        closedir(d);
}

bool zero__plugin_near(const struct zero__loader *loader, uint32_t kind, const char *name,
                       char near[ZERO__PLUGIN_NAME])
{
    const unsigned limit = strlen(name) < 4 ? 1 : strlen(name) < 8 ? 2 : 3;
    struct search s = {name, limit + 1, near};

    for (uint32_t i = 0; i < loader->n_builtins; i++)
        if (zero__builtin_find(loader, kind, loader->builtins[i]->name))
            look_at(&s, loader->builtins[i]->name);
    for (uint32_t i = 0; i < loader->n_dirs; i++)
        look_into(&s, loader->dirs[i], kind);
    return s.best <= limit;
}
