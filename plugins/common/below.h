/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin that a wrapper stands on. */
#ifndef ZERO_PLUGINS_COMMON_BELOW_H
#define ZERO_PLUGINS_COMMON_BELOW_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <zero/plugin.h>

#include "voice.h"

/* See stand_on() in plugin.h. An entry is called before versions are compared: it looks itself. */
static inline int zero__below(const struct zero__voice *v, uint32_t kind, const char *option,
                              const char *what, void *ops)
{
    const struct zero_host *host = v->host;

    if (host->size < offsetof(struct zero_host, stand_on) + sizeof host->stand_on)
        return zero__say(v, -ENOTSUP,
                         "this libzero hands out no plugins to stand on: %s is of a later one",
                         v->plugin);
    return host->stand_on(host->ctx, v->plugin, kind, option, what, ops);
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
