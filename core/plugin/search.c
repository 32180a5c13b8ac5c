/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where plugins may lie, and what their files are called. The option itself is empty when the
 * program runs with raised rights and only the environment set it (base/option_sources.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/internal.h"

static const char *const kinds[] = {
    [ZERO_IFACE_COMM] = "comm",
    [ZERO_IFACE_OFFLOAD] = "offload",
    [ZERO_IFACE_DEVICE] = "device",
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

const char *zero__kind_name(uint32_t kind)
{
    return kind < N_KINDS ? kinds[kind] : NULL;
}

/* And back; 0 for an unknown word. */
static uint32_t kind_of(const char *word, size_t bytes)
{
    for (uint32_t kind = 1; kind < N_KINDS; kind++)
        if (strlen(kinds[kind]) == bytes && strncmp(kinds[kind], word, bytes) == 0)
            return kind;
    return 0;
}

int zero__plugin_name_check(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && name[n] == 0 && n < ZERO__PLUGIN_NAME ? 0 : -EINVAL;
}

int zero__file_name_parse(const char *file, uint32_t *kind, char name[ZERO__PLUGIN_NAME])
{
    static const char prefix[] = "zero-", suffix[] = ".so";
    const char *word = file + sizeof prefix - 1, *dash, *end;
    char text[ZERO__PLUGIN_NAME];
    uint32_t found;

    if (strncmp(file, prefix, sizeof prefix - 1) != 0)
        return -EINVAL;
    dash = strchr(word, '-');
    found = dash ? kind_of(word, (size_t)(dash - word)) : 0;
    if (!found)
        return -EINVAL;
    end = file + strlen(file) - (sizeof suffix - 1);
    if (end <= dash || strcmp(end, suffix) != 0 || (size_t)(end - dash) > sizeof text)
        return -EINVAL;
    memcpy(text, dash + 1, (size_t)(end - dash) - 1);
    text[end - dash - 1] = 0;
    if (zero__plugin_name_check(text))
        return -EINVAL;
    *kind = found;
    memcpy(name, text, sizeof text);
    return 0;
}

static int dir_add(struct zero__loader *loader, const char *dir, size_t bytes)
{
    char *copy;

    while (bytes > 1 && dir[bytes - 1] == '/')
        bytes--;
    for (uint32_t i = 0; i < loader->n_dirs; i++)
        if (strlen(loader->dirs[i]) == bytes && strncmp(loader->dirs[i], dir, bytes) == 0)
            return 0;
    if (loader->n_dirs == ZERO__PLUGIN_DIRS)
        return zero__fail(-E2BIG, "ZERO_PLUGIN_PATH has more than %d folders: leave some out",
                          ZERO__PLUGIN_DIRS);
    copy = strndup(dir, bytes);
    if (!copy)
        return zero__fail(-ENOMEM, "no memory for the path of the plugins");
    loader->dirs[loader->n_dirs++] = copy;
    return 0;
}

/* The folder dir/below, when it is there and has that file. */
static int dir_add_below(struct zero__loader *loader, const char *dir, const char *below,
                         const char *file)
{
    char path[PATH_MAX], whole[PATH_MAX];

    if (snprintf(path, sizeof path, "%s%s%s", dir, below, file) >= (int)sizeof path ||
        access(path, F_OK))
        return 0;
    path[strlen(path) - strlen(file)] = 0;
    return realpath(path, whole) ? dir_add(loader, whole, strlen(whole)) : 0;
}

/*
 * lib/zero/plugins beside the library that this code lies in, so that a moved tree works; in a
 * build tree, where libtool puts library and plugins together, its own folder. The `zero` command
 * has this code in itself: its file is bin/zero, or lies in the build tree's top folder.
 */
static int dir_add_own(struct zero__loader *loader)
{
    char path[PATH_MAX];
    Dl_info info;
    char *slash;
    int err;

    if (!dladdr((const void *)kinds, &info) || !info.dli_fname)
        return 0;
    const char *file = strstr(info.dli_fname, ".so") ? info.dli_fname : "/proc/self/exe";
    if (!realpath(file, path))
        return 0;
    slash = strrchr(path, '/');
    *slash = 0;
    if (slash - path >= 6 && strcmp(slash - 6, "/.libs") == 0)
        return dir_add(loader, path, strlen(path));
    err = dir_add_below(loader, path, "/zero/plugins", "");
    if (!err)
        err = dir_add_below(loader, path, "/../lib/zero/plugins", "");
    if (!err)
        err = dir_add_below(loader, path, "/.libs", "/libzero.so");
    return err;
}

const char *zero__loader_dir(const struct zero__loader *loader, uint32_t i)
{
    return i < loader->n_dirs ? loader->dirs[i] : NULL;
}

static bool is_loaded(const struct zero__loader *loader, const char *name, size_t bytes)
{
    for (const struct zero__plugin *p = loader->plugins; p; p = p->next)
        if (strlen(p->name) == bytes && strncmp(p->name, name, bytes) == 0)
            return true;
    return false;
}

static bool file_is_there(const struct zero__loader *loader, const char *name, int bytes)
{
    char path[PATH_MAX];

    for (uint32_t i = 0; i < loader->n_dirs; i++)
        for (uint32_t kind = 1; kind < N_KINDS; kind++)
            if (snprintf(path, sizeof path, "%s/zero-%s-%.*s.so", loader->dirs[i], kinds[kind],
                         bytes, name) < (int)sizeof path &&
                access(path, F_OK) == 0)
                return true;
    return false;
}

bool zero__loader_may_ask(const struct zero__loader *loader, const char *option, bool all_asked)
{
    for (const char *end = strchr(option, '_'); end; end = strchr(end + 1, '_')) {
        const size_t n = (size_t)(end - option);
        if (n >= ZERO__PLUGIN_NAME)
            break;
        if (is_loaded(loader, option, n) ? !all_asked : file_is_there(loader, option, (int)n))
            return true;
    }
    return false;
}

int zero__search_dirs(struct zero__loader *loader)
{
    const char *p = zero__option_text(loader->options, ZERO__OPT_PLUGIN_PATH);
    int err;

    while (p && *p) {
        size_t n = strcspn(p, ":");
        if (n && *p != '/')
            return zero__fail(-EINVAL,
                              "ZERO_PLUGIN_PATH: \"%.*s\" is not an absolute path: plugins are "
                              "code, so where they come from must not depend on the folder that "
                              "the program was started in",
                              (int)n, p);
        err = n ? dir_add(loader, p, n) : 0;
        if (err)
            return err;
        p += n + (p[n] == ':');
    }
    err = dir_add_own(loader);
    return err ? err : dir_add(loader, ZERO_PLUGIN_DIR, strlen(ZERO_PLUGIN_DIR));
}
