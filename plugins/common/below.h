/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin that a wrapper stands on. */
#ifndef ZERO_PLUGINS_COMMON_BELOW_H
#define ZERO_PLUGINS_COMMON_BELOW_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <zero/offload.h>

#include "io.h"
#include "param.h"

/* What the option says, by which people name it. */
static inline const char *zero__below_name(const struct zero__voice *v, uint32_t kind,
                                           const char *option)
{
    return kind == ZERO_IFACE_COMM
               ? zero__param_text(v, option, "shm",
                                  "comm plugin that this wrapper stands on: a name, or an absolute "
                                  "path")
               : zero__param_text(v, option, "nvme",
                                  "offload plugin that this wrapper stands on: a name, or an "
                                  "absolute path");
}

/*
 * Its table, as long as ops->size says; see stand_on() in plugin.h. An entry is called before
 * versions are compared: it looks itself.
 */
static inline int zero__below(const struct zero__voice *v, uint32_t kind, const char *option,
                              void *ops)
{
    const struct zero_host *host = v->host;
    const char *name = zero__below_name(v, kind, option);
    char variable[ZERO__PARAM_VARIABLE];

    if (host->size < offsetof(struct zero_host, stand_on) + sizeof host->stand_on)
        return zero__say(v, -ENOTSUP,
                         "this libzero hands out no plugins to stand on: %s is of a later one",
                         v->plugin);
    return host->stand_on(host->ctx, v->plugin, kind, zero__param_variable(option, variable), name,
                          ops);
}

/* A store that stands on that of which `info` speaks. */
static inline void zero__below_describe(const struct zero__voice *v, struct zero_store_info *info)
{
    char note[sizeof info->note];

    snprintf(note, sizeof note, "%s over %.*s", v->plugin, (int)sizeof note - 16, info->note);
    memcpy(info->note, note, sizeof note);
}

/* The table of the store below. */
static inline int zero__below_store(const struct zero__voice *v, const char *option,
                                    struct zero_offload_ops *ops)
{
    ops->size = sizeof *ops;
    return zero__below(v, ZERO_IFACE_OFFLOAD, option, ops);
}

/* What it says of itself; `maps`: it can be mapped where that below can. */
static inline int zero__below_probe(const struct zero__voice *v, const char *option, bool maps,
                                    struct zero_store_info *info)
{
    struct zero_store_info full = {.size = sizeof full};
    struct zero_offload_ops ops;
    int err = zero__below_store(v, option, &ops);

    if (!err)
        err = ops.probe(v->host, &full);
    if (err)
        return err;
    zero__below_describe(v, &full);
    if (!maps || !ops.map)
        full.flags &= ~(uint32_t)ZERO_STORE_MAPPED;
    zero__store_info_give(&full, info);
    return 0;
}

/* What is below, of that kind, has ended what was not given to it, or has ended before. */
static inline int zero__below_strange(const struct zero__voice *v, uint32_t kind, const char *what,
                                      uint64_t tag)
{
    bool comm = kind == ZERO_IFACE_COMM;

    return zero__say(v, -EPROTO,
                     "%s ended a %s that is not under way, tag %llu: try it with zero check %s",
                     what, comm ? "collective" : "request", (unsigned long long)tag,
                     comm ? "comm" : "offload");
}

#endif
