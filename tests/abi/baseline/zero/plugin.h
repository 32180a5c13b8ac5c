/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file plugin.h
 * What every plugin exports and what the library offers it.
 *
 * A plugin is a shared object `zero-<kind>-<name>.so`, <kind> being comm, offload or device, with
 * one exported symbol, zero_plugin_v1().
 * It lists its interfaces (comm.h, offload.h, device.h); each table starts with its own size, grows
 * only at the end, and is copied by the library up to the smaller of both sizes, so that an older
 * plugin and a newer library (and the other way round) understand each other. Nothing is freed
 * across the border: who opens closes, tables and strings are static. Plugins are never unloaded.
 *
 * The interfaces are drafts (major 0) until the project's own plugins have proved them.
 */
#ifndef ZERO_PLUGIN_H
#define ZERO_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include <zero/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of interface. */
enum zero_iface_kind {
    ZERO_IFACE_COMM = 1,
    ZERO_IFACE_OFFLOAD = 2,
    ZERO_IFACE_DEVICE = 3,
};

/** One interface that a plugin offers. */
struct zero_iface {
    uint32_t kind;        /**< enum zero_iface_kind */
    uint16_t major;       /**< must equal the library's */
    uint16_t minor;       /**< what the plugin was built against */
    uint16_t need_minor;  /**< the oldest library minor it can work with */
    uint16_t reserved[3]; /**< 0 */
    const void *ops;      /**< struct zero_comm_ops and so on; its first member is its size */
};

/** A plugin: static, constant, valid for the life of the process. */
struct zero_plugin {
    size_t size;         /**< sizeof(struct zero_plugin) */
    const char *name;    /**< must equal NAME in the file's name */
    const char *version; /**< of the plugin, for people */
    const char *build;   /**< compiler, back-end version and the like, for people */
    const struct zero_iface *ifaces;
    uint32_t n_ifaces;
    uint32_t flags; /**< 0 */
};

/**
 * Services of the library; every one but stand_on() may be called from any thread. They grow at
 * the end: an older library has those within its `size`. There is one of these per runtime, so a
 * plugin uses the pointer that it was given: that of the entry and of a probe during the call, that
 * of an open until the matching close.
 */
struct zero_host {
    size_t size;
    void *ctx; /**< first argument of every service */
    uint16_t comm_minor, offload_minor, device_minor, reserved;
    /** One line of log without a newline; `plugin` is its name, by which ZERO_LOG selects it,
     * `level` of enum zero_log_level. */
    void (*log)(void *ctx, const char *plugin, int level, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
    /**
     * Records the sentence that zero_last_error() gives on this thread and returns `err`
     * (a negative errno), so that an entry can end with `return host->fail(...)`.
     */
    int (*fail)(void *ctx, const char *plugin, int err, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
    /**
     * Value of the option ZERO_<KEY> (key in lower case, without prefix), or `dflt`. `help` is kept
     * for listings; the string stays valid as long as the services. Ask for each option in the
     * entry or in a probe: what nobody has asked for when zero_create() ends is reported as unknown
     * where a user has set it. A key begins with the plugin's name and '_', by which it is known
     * while the plugin is not loaded. The library's own keys may be read; of two plugins that ask
     * for one key the first one's default counts.
     */
    const char *(*param)(void *ctx, const char *plugin, const char *key, const char *dflt,
                         const char *help);
    /**
     * For a plugin that stands on another one and passes calls on: that one's table, found and
     * checked as libzero finds and checks what it loads itself. Only from the entry, a probe or an
     * open. Plugins that stand on each other have different names.
     * @param plugin the one that asks
     * @param kind   enum zero_iface_kind of both
     * @param option what names the other one, ZERO_TRACE_COMM; for errors
     * @param name   its name, or the absolute path of its file
     * @param ops    a struct zero_comm_ops or another one, its member `size` set: filled in up
     *               to that size, entries that the other one lacks NULL; valid as long as the
     *               services
     * @return 0 or a negative errno, its sentence recorded: -ELOOP where plugins stand on each
     *         other in a circle
     */
    int (*stand_on)(void *ctx, const char *plugin, uint32_t kind, const char *option,
                    const char *name, void *ops);
};

/** A region of memory that a context knows how to address; opaque, made by alloc or reg. */
struct zero_mr;

/** A piece of registered memory: the bytes off … off + len of mr. */
struct zero_slice {
    struct zero_mr *mr;
    uint64_t off, len;
};

/** A completion: the caller's tag, and bytes (≥ 0) or a negative errno. */
struct zero_cqe {
    uint64_t user;
    int64_t res;
};

/**
 * The only exported symbol of a plugin. Must not block, start threads or touch a device: that
 * belongs to the interface's probe and open. Returns 0 and the plugin, or a negative errno after
 * host->fail() said why.
 */
int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **plugin);

/** Marks the entry as exported. */
#define ZERO_PLUGIN_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
}
#endif
#endif
