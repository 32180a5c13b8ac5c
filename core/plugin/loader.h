/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, checks and opens plugins: files `zero-<kind>-<name>.so`, or tables built into the program.
 * One loader per runtime; it owns the services (struct zero_host) that plugins call. Not thread
 * safe but for those services, stand_on() aside. Loaded code is never unloaded, also not by
 * ..._free().
 */
#ifndef ZERO_PLUGIN_LOADER_H
#define ZERO_PLUGIN_LOADER_H

#include <stdbool.h>

#include <zero/comm.h>
#include <zero/device.h>
#include <zero/offload.h>

struct zero__loader;
struct zero__log;
struct zero__options;
struct zero__plugin;

/*
 * Folders come from ZERO_PLUGIN_PATH, which must be absolute (-EINVAL), then from the place of the
 * library, then from the build. `builtins` (n static plugins) are found before any file. Options
 * and log must outlive the loader.
 */
int zero__loader_create(struct zero__options *options, const struct zero__log *log,
                        const struct zero_plugin *const *builtins, uint32_t n,
                        struct zero__loader **loader);
/* Every object that a plugin opened is closed by now. NULL is fine. */
void zero__loader_free(struct zero__loader *loader);

/*
 * The plugin of that kind (enum zero_iface_kind) and name, or absolute path; the same one when
 * asked again. It belongs to the loader. -ENOENT: no such file; others say what is wrong with it.
 */
int zero__loader_load(struct zero__loader *loader, uint32_t kind, const char *text,
                      struct zero__plugin **plugin);

/*
 * May a plugin whose name an option's begins with, nvme for nvme_path, still ask for it: one whose
 * file is there and not loaded, which stays closed, or unless all_asked one that is loaded?
 */
bool zero__loader_may_ask(const struct zero__loader *loader, const char *option, bool all_asked);

/* The i-th folder that is searched, NULL after the last. */
const char *zero__loader_dir(const struct zero__loader *loader, uint32_t i);

/* The services, for probe and open entries; valid as long as the loader. */
const struct zero_host *zero__loader_host(const struct zero__loader *loader);
/* The same for what is only tried: it warns of nothing, what is opened for good does. */
const struct zero_host *zero__loader_quiet(const struct zero__loader *loader);

/* The table for its kind, full size, missing tail entries NULL; NULL for another kind. */
const struct zero_comm_ops *zero__plugin_comm(const struct zero__plugin *plugin);
const struct zero_offload_ops *zero__plugin_offload(const struct zero__plugin *plugin);
const struct zero_device_ops *zero__plugin_device(const struct zero__plugin *plugin);

/* Of static life. */
const char *zero__plugin_name(const struct zero__plugin *plugin);

/* One line of a listing; the strings are valid during the call of the function only. */
struct zero__plugin_row {
    uint32_t kind;
    const char *kind_name, *name, *path;
    const char *error;           /* why it cannot be loaded; then nothing below is set */
    const char *version, *build; /* as the plugin says */
    const struct zero_iface *ifaces;
    uint32_t n_ifaces;
    int probe; /* what the probe returned; the structs below are set when 0 */
    const char *probe_error;
    struct zero_comm_caps comm;
    struct zero_store_info offload;
    struct zero_device_info device;
};

/*
 * Loads and probes everything that can be found, built-in plugins first, then the folders in order
 * and their files by name, and calls fn for each; also for one that an earlier folder hides.
 * Stops when fn returns non-zero and returns that.
 */
int zero__loader_scan(struct zero__loader *loader,
                      int (*fn)(void *arg, const struct zero__plugin_row *row), void *arg);

#endif
