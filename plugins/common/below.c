/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that is loaded runs with all rights of the program: it comes from a file and folders that
 * not everybody may write to, it is what its name says, and it speaks this version. Like every
 * plugin it is never unloaded.
 */
#define _GNU_SOURCE
#include "below.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY "zero_plugin_v1"
#define SUFFIX ".so"
#define NAME_BYTES 64
#define TABLE_MOST 65536u /* bytes of a table or description; more is garbage */

typedef int entry_fn(const struct zero_host *host, const struct zero_plugin **plugin);

/*
 * Is this wrapper just loading what is below it, further up on this thread's stack? Then they go
 * round in a circle. 0 again whenever no load is under way.
 */
static _Thread_local int loading;

/* What is looked for. */
struct sort {
    const char *word; /* in the name of the file */
    uint32_t kind;
    uint16_t major;
    size_t bytes; /* of the table */
    const struct needed {
        const char *name;
        size_t offset;
    } * needed; /* entries that must not be NULL; ends with a name of NULL */
};

#define E(table, member)                        \
    {                                           \
#member, offsetof(struct table, member) \
    }

static const struct needed comm_needs[] = {
    E(zero_comm_ops, probe),      E(zero_comm_ops, open),       E(zero_comm_ops, close),
    E(zero_comm_ops, reg),        E(zero_comm_ops, unreg),      E(zero_comm_ops, exchange),
    E(zero_comm_ops, progress),   E(zero_comm_ops, wake),       E(zero_comm_ops, abort),
    E(zero_comm_ops, split),      E(zero_comm_ops, post),       E(zero_comm_ops, error),
    E(zero_comm_ops, wire_bytes), E(zero_comm_ops, comm_close), {NULL, 0}};
static const struct needed offload_needs[] = {E(zero_offload_ops, probe),
                                              E(zero_offload_ops, open),
                                              E(zero_offload_ops, info),
                                              E(zero_offload_ops, resize),
                                              E(zero_offload_ops, reg),
                                              E(zero_offload_ops, unreg),
                                              E(zero_offload_ops, submit),
                                              E(zero_offload_ops, poll),
                                              E(zero_offload_ops, wake),
                                              E(zero_offload_ops, close),
                                              {NULL, 0}};

static const struct sort comm = {"comm", ZERO_IFACE_COMM, ZERO_COMM_MAJOR,
                                 sizeof(struct zero_comm_ops), comm_needs};
static const struct sort offload = {"offload", ZERO_IFACE_OFFLOAD, ZERO_OFFLOAD_MAJOR,
                                    sizeof(struct zero_offload_ops), offload_needs};

/* ---- Where it is ----------------------------------------------------------------------------- */

static int name_check(const struct zero__voice *v, const struct sort *s, const char *option,
                      const char *what, const char *name, size_t n)
{
    if (n > 0 && n < NAME_BYTES && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") >= n)
        return 0;
    return zero__say(v, -EINVAL,
                     "%s is \"%.200s\": give the name of %s plugin in the same folder, or the "
                     "absolute path of a file zero-%s-NAME" SUFFIX,
                     option, what, s == &comm ? "a comm" : "an offload", s->word);
}

/*
 * This plugin's own folder; 0: it is unknown. The text is the dynamic loader's, who wrote it
 * under a lock that thread sanitizers do not see: so it is read here, and by no function of libc.
 */
__attribute__((noinline, no_sanitize("thread"))) static size_t own_folder(char folder[PATH_MAX])
{
    size_t n = 0, end = 0;
    Dl_info own;

    if (!dladdr((const void *)&own_folder, &own) || !own.dli_fname || own.dli_fname[0] != '/')
        return 0;
    for (; own.dli_fname[n] && n < PATH_MAX - 1; n++) {
        folder[n] = own.dli_fname[n];
        end = folder[n] == '/' ? n : end;
    }
    folder[end] = 0;
    return n;
}

/* The path of the plugin, and its name. */
static int place(const struct zero__voice *v, const struct sort *s, const char *option,
                 const char *what, char path[PATH_MAX], char name[NAME_BYTES])
{
    const char *file = what;
    size_t n = strlen(what), before;
    char prefix[32], folder[PATH_MAX];

    before = (size_t)snprintf(prefix, sizeof prefix, "zero-%s-", s->word);
    if (*what == '/') {
        file = strrchr(what, '/') + 1;
        n = strlen(file);
        if (strncmp(file, prefix, before) != 0 || n <= before + strlen(SUFFIX) ||
            strcmp(file + n - strlen(SUFFIX), SUFFIX) != 0 || strlen(what) >= PATH_MAX)
            return name_check(v, s, option, what, "", 0);
        n -= before + strlen(SUFFIX);
        file += before;
    }
    int err = name_check(v, s, option, what, file, n);
    if (err)
        return err;
    memcpy(name, file, n);
    name[n] = 0;
    if (*what == '/') {
        strcpy(path, what);
        return 0;
    }
    if (!own_folder(folder))
        return zero__say(v, -ENODEV,
                         "%s is \"%s\", but this plugin does not know its own folder: "
                         "give an absolute path",
                         option, what);
    if (snprintf(path, PATH_MAX, "%s/%s%s" SUFFIX, folder, prefix, name) >= PATH_MAX)
        return zero__say(v, -ENAMETOOLONG, "%s: the path of %s is too long", option, name);
    return 0;
}

/* ---- Whether it can be trusted --------------------------------------------------------------- */

static int open_to_all(const struct zero__voice *v, const char *file, const char *path)
{
    return zero__say(v, -EPERM,
                     "%s: everybody may write to %s, so the plugin is not to be trusted: chmod o-w "
                     "%s",
                     file, path, path);
}

/* Every folder above the file; /tmp and its like, where nobody can rename what is not his, pass. */
static int check_folders(const struct zero__voice *v, const char *file)
{
    char path[PATH_MAX];
    struct stat st;
    char *slash;

    snprintf(path, sizeof path, "%s", file);
    while ((slash = strrchr(path, '/'))) {
        slash[slash == path] = 0;
        if (stat(path, &st))
            return zero__say(v, -errno, "%s: cannot look at the folder %s: %m", file, path);
        if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
            return open_to_all(v, file, path);
        if (slash == path)
            break;
    }
    return 0;
}

/* The file behind fd, and its path without links. */
static int check_file(const struct zero__voice *v, int fd, const char *path, struct stat *st,
                      char real[PATH_MAX])
{
    char link[64];
    ssize_t n;
    int err;

    if (fstat(fd, st))
        return zero__say(v, -errno, "%s: cannot look at the file: %m", path);
    if (!S_ISREG(st->st_mode))
        return zero__say(v, -EINVAL, "%s: not a regular file", path);
    if (st->st_mode & S_IWOTH)
        return open_to_all(v, path, path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, real, PATH_MAX - 1);
    if (n <= 0 || real[0] != '/')
        return zero__say(v, -EIO, "%s: cannot find its real path; is /proc mounted?", path);
    real[n] = 0;
    if (strchr(real, '$'))
        return zero__say(v, -EINVAL, "%s: the dynamic linker cannot load a path with a $", real);
    err = check_folders(v, real);
    return err ? err : check_folders(v, path);
}

/* ---- What it is ------------------------------------------------------------------------------ */

/* The entry of the file itself, not of a library that it depends on. */
static int find_entry(const struct zero__voice *v, void *handle, const char *path, entry_fn **entry)
{
    struct link_map *own = NULL, *from = NULL;
    void *symbol = dlsym(handle, ENTRY);
    Dl_info info;

    if (!symbol || dlinfo(handle, RTLD_DI_LINKMAP, &own) ||
        !dladdr1(symbol, &info, (void **)&from, RTLD_DL_LINKMAP) || own != from)
        return zero__say(v, -ENOEXEC, "%s: no symbol " ENTRY " of its own: not a plugin", path);
    memcpy(entry, &symbol, sizeof symbol);
    return 0;
}

static int object_open(const struct zero__voice *v, const char *path,
                       const struct zero_plugin **desc)
{
    char real[PATH_MAX];
    struct stat checked, loaded;
    entry_fn *entry = NULL;
    void *handle;
    int fd, err;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return zero__say(v, -errno, "%s: cannot open: %m", path);
    err = check_file(v, fd, path, &checked, real);
    if (!err && !(handle = dlopen(real, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)))
        err = zero__say(v, -ENOEXEC, "%s: cannot load: %s", real, dlerror());
    close(fd);
    if (!err &&
        (stat(real, &loaded) || loaded.st_dev != checked.st_dev || loaded.st_ino != checked.st_ino))
        err = zero__say(v, -EPERM, "%s: the file was exchanged while it was loaded", real);
    if (!err)
        err = find_entry(v, handle, real, &entry);
    if (err)
        return err;
    *desc = NULL;
    err = entry(v->host, desc); /* says itself what is wrong */
    if (!err && !*desc)
        err = zero__say(v, -EINVAL, "%s: " ENTRY " returned no plugin", real);
    return err < 0 ? err : err ? -EINVAL : 0;
}

static int table_copy(const struct zero__voice *v, const struct sort *s, const char *path,
                      const void *from, void *ops)
{
    size_t size = 0;
    void (*fn)(void);

    if (from)
        memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > TABLE_MOST)
        return zero__say(v, -EINVAL, "%s: its %s table says it is %zu bytes long", path, s->word,
                         size);
    memset(ops, 0, s->bytes);
    memcpy(ops, from, size < s->bytes ? size : s->bytes);
    memcpy(ops, &s->bytes, sizeof s->bytes); /* the first member of every table is its size */
    for (const struct needed *n = s->needed; n->name; n++) {
        memcpy(&fn, (const char *)ops + n->offset, sizeof fn);
        if (!fn)
            return zero__say(v, -EINVAL, "%s: the entry %s of its %s table is NULL", path, n->name,
                             s->word);
    }
    return 0;
}

/* Name, kind, version: that of this wrapper, which passes calls on as they come. */
static int choose(const struct zero__voice *v, const struct sort *s, const char *path,
                  const char *name, const struct zero_plugin *desc, void *ops)
{
    uint16_t minor = s == &comm ? v->host->comm_minor : v->host->offload_minor;
    const struct zero_iface *other = NULL;

    if (desc->size < offsetof(struct zero_plugin, flags) || desc->size > TABLE_MOST)
        return zero__say(v, -EINVAL, "%s: its description is %zu bytes long", path, desc->size);
    if (!desc->name || strcmp(desc->name, name) != 0)
        return zero__say(v, -EINVAL, "%s: the plugin calls itself \"%.64s\": rename the file", path,
                         desc->name ? desc->name : "");
    for (uint32_t i = 0; i < desc->n_ifaces && desc->ifaces; i++) {
        const struct zero_iface *f = &desc->ifaces[i];
        if (f->kind != s->kind)
            continue;
        if (f->major == s->major && f->need_minor <= minor)
            return table_copy(v, s, path, f->ops, ops);
        other = f;
    }
    if (!other)
        return zero__say(v, -EINVAL, "%s: the plugin offers no %s interface", path, s->word);
    return zero__say(v, -EPROTO,
                     "%s: the plugin speaks %s interface %u.%u and needs %u.%u, here it is %u.%u: "
                     "use plugins of one version",
                     path, s->word, other->major, other->minor, other->major, other->need_minor,
                     s->major, minor);
}

static int load(const struct zero__voice *v, const struct sort *s, const char *option,
                const char *what, void *ops)
{
    const struct zero_plugin *desc;
    char path[PATH_MAX], name[NAME_BYTES];
    int err;

    if (loading)
        return zero__say(v, -ELOOP,
                         "%s: the plugin %s stands on itself; below the last wrapper "
                         "there must be a plugin that does the work",
                         option, v->plugin);
    err = place(v, s, option, what, path, name);
    if (err)
        return err;
    loading = 1;
    err = object_open(v, path, &desc);
    loading = 0;
    if (err == -ENOENT) /* from an entry, that would say that the wrapper's own file is not there */
        err = -ENODEV;
    return err ? err : choose(v, s, path, name, desc, ops);
}

int zero__below_comm(const struct zero__voice *v, const char *option, const char *what,
                     struct zero_comm_ops *ops)
{
    return load(v, &comm, option, what, ops);
}

int zero__below_offload(const struct zero__voice *v, const char *option, const char *what,
                        struct zero_offload_ops *ops)
{
    return load(v, &offload, option, what, ops);
}
