/* SPDX-License-Identifier: Apache-2.0 */
/* How a plugin says what went wrong, and logs. */
#ifndef ZERO_PLUGINS_COMMON_VOICE_H
#define ZERO_PLUGINS_COMMON_VOICE_H

#include <errno.h>

#include <zero/plugin.h>

/* For host->fail: who speaks. */
struct zero__voice {
    const struct zero_host *host;
    const char *plugin;
};

#define zero__say(voice, err, ...) \
    ((voice)->host->fail((voice)->host->ctx, (voice)->plugin, (err), __VA_ARGS__))

#define zero__tell(voice, level, ...) \
    ((voice)->host->log((voice)->host->ctx, (voice)->plugin, (level), __VA_ARGS__))

#endif
