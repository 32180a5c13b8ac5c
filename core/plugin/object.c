/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that calls the dynamic linker. A plugin stays in memory for good: its threads,
 * thread-local destructors and exit handlers may outlive every object it made.
 *
 * It is opened by its real path, of which every part was checked, and compared with the descriptor
 * afterwards. Opening /proc/self/fd/N instead would not do: the linker knows objects by that name,
 * and gives back an old one when N is used again for another file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "plugin/internal.h"

#define ENTRY "zero_plugin_v1"

typedef int entry_fn(const struct zero_host *host, const struct zero_plugin **plugin);

static int open_failed(const char *path)
{
    const char *text = dlerror();
    const char *likely = "";

    if (text && (strstr(text, "undefined symbol") || strstr(text, "version")))
        likely = " (compiled for a different version?)";
    else if (text && strstr(text, "ELF"))
        likely = " (no shared library, or one for another machine: build the plugin here)";
    return zero__fail(-ENOEXEC, "%s: cannot load: %s%s", path, text ? text : "unknown reason",
                      likely);
}

/* The entry of the file itself, not one that a library it depends on happens to have. */
static int find_entry(void *handle, const char *path, entry_fn **entry)
{
    struct link_map *own = NULL, *from = NULL;
    Dl_info info;
    void *symbol = dlsym(handle, ENTRY);

    if (!symbol)
        return zero__fail(-ENOEXEC,
                          "%s: no symbol " ENTRY ": not a plugin of this library, or compiled for "
                          "a different version?",
                          path);
    if (dlinfo(handle, RTLD_DI_LINKMAP, &own) ||
        !dladdr1(symbol, &info, (void **)&from, RTLD_DL_LINKMAP) || own != from)
        return zero__fail(-ENOEXEC,
                          "%s: its symbol " ENTRY " comes from another file, %s: a plugin defines "
                          "its own",
                          path, from && from->l_name ? from->l_name : "?");
    memcpy(entry, &symbol, sizeof symbol); /* ISO C has no cast from void * to a function */
    return 0;
}

/* The path must still lead to the file that was checked. */
static int check_same(int fd, const char *path)
{
    struct stat checked, loaded;

    if (fstat(fd, &checked) || stat(path, &loaded))
        return zero__fail(-errno, "%s: cannot look at the file again: %m", path);
    if (checked.st_dev != loaded.st_dev || checked.st_ino != loaded.st_ino)
        return zero__fail(-EPERM, "%s: the file was exchanged while it was loaded", path);
    return 0;
}

int zero__object_open(struct zero__loader *loader, int fd, const char *path,
                      const struct zero_plugin **desc)
{
    const struct zero_plugin *found = NULL;
    entry_fn *entry = NULL;
    void *handle;
    int err;

    if (strchr(path, '$'))
        return zero__fail(-EINVAL, "%s: the dynamic linker cannot load a path with a $", path);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return open_failed(path);
    err = check_same(fd, path);
    if (!err)
        err = find_entry(handle, path, &entry);
    if (err)
        return err;
    zero__unsay();
    err = entry(&loader->host, &found);
    if (err)
        return zero__while(zero__unsaid(err < 0 ? err : -EINVAL, "it"),
                           "%s: the plugin refuses to start", path);
    if (!found)
        return zero__fail(-EINVAL, "%s: " ENTRY " returned no plugin", path);
    *desc = found;
    return 0;
}
