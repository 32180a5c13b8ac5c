/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listing: everything that could be asked for by name, and why it would fail. It runs the code
 * of what it lists (entry and probe), from the same trusted folders as a load.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/internal.h"

typedef int row_fn(void *arg, const struct zero__plugin_row *row);

static void probe(struct zero__loader *loader, const struct zero__plugin *p,
                  struct zero__plugin_row *row)
{
    zero__fail(0, "the probe did not say why");
    if (p->kind == ZERO_IFACE_COMM) {
        row->comm.size = sizeof row->comm;
        row->probe = p->ops.comm.probe(&loader->host, &row->comm);
        row->comm.note[sizeof row->comm.note - 1] = 0;
    } else if (p->kind == ZERO_IFACE_OFFLOAD) {
        row->offload.size = sizeof row->offload;
        row->probe = p->ops.offload.probe(&loader->host, &row->offload);
        row->offload.note[sizeof row->offload.note - 1] = 0;
    } else {
        row->device.size = sizeof row->device;
        row->probe = p->ops.device.probe(&loader->host, &row->device);
        row->device.note[sizeof row->device.note - 1] = 0;
    }
    if (row->probe)
        row->probe_error = zero__error_text();
}

/* Reports one plugin that was opened (err 0), or the error of this thread, and frees it. */
static int report(struct zero__loader *loader, struct zero__plugin_row *row, struct zero__plugin *p,
                  int err, row_fn *fn, void *arg)
{
    int stop;

    row->kind_name = zero__kind_name(row->kind);
    if (err) {
        row->error = zero__error_text();
    } else {
        row->path = p->path;
        row->version = p->desc.version;
        row->build = p->desc.build;
        row->ifaces = p->desc.ifaces;
        row->n_ifaces = p->desc.n_ifaces;
        probe(loader, p, row);
    }
    stop = fn(arg, row);
    if (!err)
        zero__plugin_free(p);
    return stop;
}

static int scan_builtin(struct zero__loader *loader, const struct zero_plugin *desc, row_fn *fn,
                        void *arg)
{
    for (uint32_t i = 0; i < desc->n_ifaces; i++) {
        struct zero__plugin *p = NULL;
        struct zero__plugin_row row = {
            .kind = desc->ifaces[i].kind, .name = desc->name, .path = ZERO__BUILT_IN};
        int err, stop;

        if (!zero__kind_name(row.kind))
            continue;
        err = zero__plugin_open_builtin(desc, row.kind, &p);
        stop = report(loader, &row, p, err, fn, arg);
        if (stop)
            return stop;
    }
    return 0;
}

static int is_plugin(const struct dirent *entry)
{
    return strncmp(entry->d_name, "zero-", 5) == 0 && strlen(entry->d_name) > 8 &&
           strcmp(entry->d_name + strlen(entry->d_name) - 3, ".so") == 0;
}

static int scan_file(struct zero__loader *loader, const char *dir, const char *file, row_fn *fn,
                     void *arg)
{
    char path[PATH_MAX], name[ZERO__PLUGIN_NAME];
    struct zero__plugin_row row = {.name = file, .path = path};
    struct zero__plugin *p = NULL;
    int err;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) >= sizeof path)
        return 0;
    err = zero__file_name_parse(file, &row.kind, name);
    if (err) {
        zero__fail(err,
                   "%s: a plugin's file is called zero-KIND-NAME.so, with a KIND of comm, "
                   "offload or device",
                   path);
    } else {
        row.name = name;
        err = zero__plugin_open_file(loader, row.kind, name, path, &p);
    }
    return report(loader, &row, p, err, fn, arg);
}

/* Devices first, beside the built-in one; each kind by name. */
static int by_kind(const struct dirent **a, const struct dirent **b)
{
    static const char device[] = "zero-device-";
    const int first = strncmp((*a)->d_name, device, sizeof device - 1) != 0,
              second = strncmp((*b)->d_name, device, sizeof device - 1) != 0;
    return first != second ? first - second : strcmp((*a)->d_name, (*b)->d_name);
}

static int scan_dir(struct zero__loader *loader, const char *dir, row_fn *fn, void *arg)
{
    struct dirent **files;
    int n = scandir(dir, &files, is_plugin, by_kind), stop = 0;

    if (n < 0)
        return 0; /* a folder that is not there holds nothing */
    for (int i = 0; i < n; i++) {
        if (!stop)
            stop = scan_file(loader, dir, files[i]->d_name, fn, arg);
        free(files[i]);
    }
    free(files);
    return stop;
}

int zero__loader_scan(struct zero__loader *loader, row_fn *fn, void *arg)
{
    int stop = 0;

    for (uint32_t i = 0; i < loader->n_builtins && !stop; i++)
        stop = scan_builtin(loader, loader->builtins[i], fn, arg);
    for (uint32_t i = 0; i < loader->n_dirs && !stop; i++)
        stop = scan_dir(loader, loader->dirs[i], fn, arg);
    return stop;
}
