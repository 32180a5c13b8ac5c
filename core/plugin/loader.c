/* SPDX-License-Identifier: Apache-2.0 */
/* Asked by name, a plugin is found in one place or nowhere: a bad one is an error, not skipped. */
#include "plugin/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/internal.h"

int zero__loader_create(struct zero__options *options, const struct zero__log *log,
                        const struct zero_plugin *const *builtins, uint32_t n,
                        struct zero__loader **out)
{
    struct zero__loader *loader = calloc(1, sizeof *loader);
    int err;

    if (!loader)
        return zero__fail(-ENOMEM, "no memory for the plugin loader");
    loader->options = options;
    loader->log = log;
    loader->builtins = builtins;
    loader->n_builtins = n;
    zero__host_fill(loader);
    err = zero__search_dirs(loader);
    if (err) {
        zero__loader_free(loader);
        return err;
    }
    *out = loader;
    return 0;
}

void zero__plugin_free(struct zero__plugin *p)
{
    if (!p)
        return;
    free(p->path);
    free(p);
}

void zero__loader_free(struct zero__loader *loader)
{
    if (!loader)
        return;
    while (loader->plugins) {
        struct zero__plugin *next = loader->plugins->next;
        zero__plugin_free(loader->plugins);
        loader->plugins = next;
    }
    zero__stacks_free(loader);
    for (uint32_t i = 0; i < loader->n_dirs; i++)
        free(loader->dirs[i]);
    free(loader);
}

static struct zero__plugin *plugin_new(uint32_t kind, const char *name, char *path)
{
    struct zero__plugin *p = calloc(1, sizeof *p);

    if (!p || !path) {
        free(p);
        free(path);
        zero__fail(-ENOMEM, "no memory for a plugin");
        return NULL;
    }
    p->kind = kind;
    p->path = path;
    snprintf(p->name, sizeof p->name, "%s", name);
    return p;
}

int zero__plugin_open_builtin(const struct zero_plugin *desc, uint32_t kind,
                              struct zero__plugin **plugin)
{
    struct zero__plugin *p = plugin_new(kind, desc->name, strdup(ZERO__BUILT_IN));
    int err = p ? zero__negotiate(desc, p) : -ENOMEM;

    if (err) {
        zero__plugin_free(p);
        return err;
    }
    *plugin = p;
    return 0;
}

/* Of the file behind fd, whose real path is `real`; takes both over. */
static int open_trusted(struct zero__loader *loader, uint32_t kind, const char *name, int fd,
                        char *real, struct zero__plugin **plugin)
{
    const struct zero_plugin *desc;
    struct zero__plugin *p = plugin_new(kind, name, real);
    int err = p ? zero__object_open(loader, fd, p->path, &desc) : -ENOMEM;

    close(fd);
    if (!err)
        err = zero__negotiate(desc, p);
    if (err) {
        zero__plugin_free(p);
        return err;
    }
    zero__log(loader->log, ZERO_LOG_INFO, "plugin", "%s %s %s from %s", zero__kind_name(kind), name,
              p->desc.version, p->path);
    *plugin = p;
    return 0;
}

int zero__plugin_open_file(struct zero__loader *loader, uint32_t kind, const char *name,
                           const char *path, struct zero__plugin **plugin)
{
    char *real;
    int fd, err = zero__safe_open(loader->log, path, &fd, &real);

    if (err == -ENOENT)
        return zero__fail(err, "%s: no such file, or a link that leads nowhere", path);
    return err ? err : open_trusted(loader, kind, name, fd, real, plugin);
}

static int not_found(const struct zero__loader *loader, uint32_t kind, const char *name)
{
    char dirs[2048] = "", near[ZERO__PLUGIN_NAME] = "";
    bool meant = zero__plugin_near(loader, kind, name, near);

    for (uint32_t i = 0; i < loader->n_dirs; i++) {
        size_t n = strlen(dirs);
        snprintf(dirs + n, sizeof dirs - n, "%s%s", i ? ", " : "", loader->dirs[i]);
    }
    return zero__fail(-ENOENT,
                      "no plugin zero-%s-%s.so in %s: %s%s%s%scheck the name (`zero info` lists "
                      "what there is), or set ZERO_PLUGIN_PATH to its folder",
                      zero__kind_name(kind), name, dirs,
                      kind == ZERO_IFACE_DEVICE ? "host is built in, and cuda is there where "
                                                  "configure found nvcc; "
                                                : "",
                      meant ? "did you mean " : "", near, meant ? "? Else " : "");
}

static int open_by_name(struct zero__loader *loader, uint32_t kind, const char *name,
                        struct zero__plugin **plugin)
{
    const struct zero_plugin *builtin = zero__builtin_find(loader, kind, name);
    char path[PATH_MAX], *real;
    int fd;

    if (builtin)
        return zero__plugin_open_builtin(builtin, kind, plugin);
    for (uint32_t i = 0; i < loader->n_dirs; i++) {
        int n = snprintf(path, sizeof path, "%s/zero-%s-%s.so", loader->dirs[i],
                         zero__kind_name(kind), name);
        if ((size_t)n >= sizeof path)
            continue;
        int err = zero__safe_open(loader->log, path, &fd, &real);
        if (err == -ENOENT)
            continue;
        return err ? err : open_trusted(loader, kind, name, fd, real, plugin);
    }
    return not_found(loader, kind, name);
}

/* `file` is an absolute path; its last part says kind and name. */
static int split_path(uint32_t kind, const char *file, char name[ZERO__PLUGIN_NAME])
{
    uint32_t found;

    if (zero__file_name_parse(strrchr(file, '/') + 1, &found, name))
        return zero__fail(-EINVAL, "%s: a plugin's file is called zero-%s-NAME.so", file,
                          zero__kind_name(kind));
    if (found != kind)
        return zero__fail(-EINVAL, "%s is a plugin for %s, but one for %s is needed", file,
                          zero__kind_name(found), zero__kind_name(kind));
    return 0;
}

/* By name what was found by name, by path what has that one: two paths may have one name. */
static struct zero__plugin *find_loaded(const struct zero__loader *loader, uint32_t kind,
                                        const char *name, const char *path)
{
    char real[PATH_MAX];

    if (path && !realpath(path, real))
        return NULL;
    for (struct zero__plugin *p = loader->plugins; p; p = p->next)
        if (p->kind == kind && strcmp(p->name, name) == 0 &&
            (path ? !strcmp(p->path, real) : p->by_name))
            return p;
    return NULL;
}

int zero__plugin_named(uint32_t kind, const char *text, char name[ZERO__PLUGIN_NAME])
{
    if (!zero__kind_name(kind))
        return zero__fail(-EINVAL, "plugins of kind %u are unknown", kind);
    if (*text == '/')
        return split_path(kind, text, name);
    if (zero__plugin_name_check(text))
        return zero__fail(-EINVAL,
                          "\"%.200s\" names no %s plugin: give its name, or the absolute path of "
                          "its file",
                          text, zero__kind_name(kind));
    strcpy(name, text);
    return 0;
}

int zero__loader_load(struct zero__loader *loader, uint32_t kind, const char *text,
                      struct zero__plugin **plugin)
{
    const char *path = *text == '/' ? text : NULL;
    char name[ZERO__PLUGIN_NAME];
    struct zero__plugin *p;
    int err = zero__plugin_named(kind, text, name);

    if (err)
        return err;
    p = find_loaded(loader, kind, name, path);
    if (!p) {
        err = path ? zero__plugin_open_file(loader, kind, name, path, &p)
                   : open_by_name(loader, kind, name, &p);
        if (err)
            return err;
        p->by_name = !path;
        p->next = loader->plugins;
        loader->plugins = p;
    }
    *plugin = p;
    return 0;
}

const struct zero_host *zero__loader_host(const struct zero__loader *loader)
{
    return &loader->host;
}

const struct zero_host *zero__loader_quiet(const struct zero__loader *loader)
{
    return &loader->quiet;
}

const struct zero_comm_ops *zero__plugin_comm(const struct zero__plugin *p)
{
    return p->kind == ZERO_IFACE_COMM ? &p->ops.comm : NULL;
}

const struct zero_offload_ops *zero__plugin_offload(const struct zero__plugin *p)
{
    return p->kind == ZERO_IFACE_OFFLOAD ? &p->ops.offload : NULL;
}

const struct zero_device_ops *zero__plugin_device(const struct zero__plugin *p)
{
    return p->kind == ZERO_IFACE_DEVICE ? &p->ops.device : NULL;
}

const char *zero__plugin_name(const struct zero__plugin *p)
{
    return p->desc.name; /* outlives the loader: plugins stay loaded */
}
