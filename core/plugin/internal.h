/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room only. */
#ifndef ZERO_PLUGIN_INTERNAL_H
#define ZERO_PLUGIN_INTERNAL_H

#include <limits.h>
#include <stddef.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "plugin/loader.h"

#define ZERO__PLUGIN_NAME 64 /* bytes of a name, with its end */
#define ZERO__PLUGIN_DIRS 32
#define ZERO__PLUGIN_TABLE_MOST 65536u /* bytes; a larger table is garbage */
#define ZERO__BUILT_IN "(built in)"

struct zero__plugin {
    struct zero__plugin *next;
    uint32_t kind;
    char name[ZERO__PLUGIN_NAME];
    bool by_name; /* found so, not by its path */
    char *path;
    struct zero_plugin desc; /* copied up to the smaller size */
    union {
        size_t size;
        struct zero_comm_ops comm;
        struct zero_offload_ops offload;
        struct zero_device_ops device;
    } ops;
};

struct zero__loader {
    struct zero_host host, quiet;
    struct zero__options *options;
    const struct zero__log *log;
    const struct zero_plugin *const *builtins;
    uint32_t n_builtins, n_dirs;
    char *dirs[ZERO__PLUGIN_DIRS];
    struct zero__plugin *plugins;
    struct zero__stack *stacks; /* below.c: which plugin stands on which */
};

/* host_services.c: fills the tables; their ctx is the loader. */
void zero__host_fill(struct zero__loader *loader);

/* below.c: the service of that name, see plugin.h. */
int zero__stand_on(void *ctx, const char *above, uint32_t kind, const char *option,
                   const char *name, void *ops);
void zero__stacks_free(struct zero__loader *loader);

/* builtin.c: the static plugin of that kind and name, or NULL. */
const struct zero_plugin *zero__builtin_find(const struct zero__loader *loader, uint32_t kind,
                                             const char *name);

/* search.c: collects the folders; -EINVAL for one that is not absolute. */
int zero__search_dirs(struct zero__loader *loader);
/* search.c: "comm" and so on; NULL for an unknown kind. */
const char *zero__kind_name(uint32_t kind);
/* search.c: takes `zero-<kind>-<name>.so` apart; -EINVAL when it is something else. */
int zero__file_name_parse(const char *file, uint32_t *kind, char name[ZERO__PLUGIN_NAME]);
int zero__plugin_name_check(const char *name);

/* near.c: a plugin of that kind whose name is much like this one; false when there is none. */
bool zero__plugin_near(const struct zero__loader *loader, uint32_t kind, const char *name,
                       char near[ZERO__PLUGIN_NAME]);

/*
 * safe_open.c: opens a file that only its owner can have put there; *real is its path without
 * links, to be freed. -EPERM when others may write to it or to a folder on the way to it.
 */
int zero__safe_open(const struct zero__log *log, const char *path, int *fd, char **real);

/* object.c: maps the file at `path`, which is the one behind fd, and calls its entry. */
int zero__object_open(struct zero__loader *loader, int fd, const char *path,
                      const struct zero_plugin **desc);

/* negotiate.c: checks what the plugin says and copies its table. p->kind and p->name are set. */
int zero__negotiate(const struct zero_plugin *desc, struct zero__plugin *p);

/* loader.c: the name of the plugin that a name or an absolute path means. */
int zero__plugin_named(uint32_t kind, const char *text, char name[ZERO__PLUGIN_NAME]);
/* loader.c: opens one file that was found; does not enter it in the loader's list. */
int zero__plugin_open_file(struct zero__loader *loader, uint32_t kind, const char *name,
                           const char *path, struct zero__plugin **plugin);
int zero__plugin_open_builtin(const struct zero_plugin *desc, uint32_t kind,
                              struct zero__plugin **plugin);
void zero__plugin_free(struct zero__plugin *p);

#endif
