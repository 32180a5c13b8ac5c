/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one symbol that a plugin exports, and the constant description that it gives: a plugin's file
 * begins with config.h, which has the version of all plugins, and ends with ZERO__PLUGIN(), without
 * a semicolon.
 */
#ifndef ZERO_PLUGINS_COMMON_ENTRY_H
#define ZERO_PLUGINS_COMMON_ENTRY_H

#include <zero/plugin.h>

/* KIND: COMM, OFFLOAD or DEVICE, whose header is included where this stands. */
#define ZERO__ENTRY_IFACE(KIND, ops_)                                                           \
    {                                                                                           \
        .kind = ZERO_IFACE_##KIND, .major = ZERO_##KIND##_MAJOR, .minor = ZERO_##KIND##_MINOR,  \
        .ops = (ops_)                                                                           \
    }

#define ZERO__ENTRY_PLUGIN(name_, iface_, build_)                                               \
    {                                                                                           \
        .size = sizeof(struct zero_plugin), .name = (name_), .version = PACKAGE_VERSION,        \
        .build = (build_), .ifaces = (iface_), .n_ifaces = 1                                    \
    }

/* A plugin with one interface; build_: the compiler, and what else people should know. */
#define ZERO__PLUGIN(name_, KIND, ops_, build_)                                                 \
    static const struct zero_iface iface = ZERO__ENTRY_IFACE(KIND, ops_);                       \
    static const struct zero_plugin plugin = ZERO__ENTRY_PLUGIN(name_, &iface, build_);         \
                                                                                                \
    ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,                         \
                                          const struct zero_plugin **out)                       \
    {                                                                                           \
        (void)host;                                                                             \
        *out = &plugin;                                                                         \
        return 0;                                                                               \
    }

#endif
