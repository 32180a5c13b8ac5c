/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins call; the loader comes as context. */
#include <stdarg.h>
#include <stdio.h>

#include "plugin/internal.h"

static void log_list(const struct zero__loader *loader, const char *plugin, int level,
                     const char *fmt, va_list ap)
{
    char text[ZERO_ERROR_BYTES];

    if (level < ZERO_LOG_ERROR || level > ZERO_LOG_TRACE)
        level = ZERO_LOG_TRACE;
    if (!zero__log_shows(loader->log, level, plugin))
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    zero__log(loader->log, level, plugin, "%s", text);
}

static void service_log(void *ctx, const char *plugin, int level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_list(ctx, plugin, level, fmt, ap);
    va_end(ap);
}

static void service_log_quiet(void *ctx, const char *plugin, int level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_list(ctx, plugin, level < ZERO_LOG_DEBUG ? ZERO_LOG_DEBUG : level, fmt, ap);
    va_end(ap);
}

static int service_fail(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    char text[ZERO_ERROR_BYTES];
    va_list ap;

    (void)ctx;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return zero__fail(err < 0 ? err : -EINVAL, "%s: %s", plugin, text);
}

static const char *service_param(void *ctx, const char *plugin, const char *key, const char *dflt,
                                 const char *help)
{
    const struct zero__loader *loader = ctx;
    const char *value = zero__options_param(loader->options, plugin, key, dflt, help);

    return value ? value : dflt;
}

void zero__host_fill(struct zero__loader *loader)
{
    loader->host = (struct zero_host){
        .size = sizeof(struct zero_host),
        .ctx = loader,
        .comm_minor = ZERO_COMM_MINOR,
        .offload_minor = ZERO_OFFLOAD_MINOR,
        .device_minor = ZERO_DEVICE_MINOR,
        .log = service_log,
        .fail = service_fail,
        .param = service_param,
        .stand_on = zero__stand_on,
    };
    loader->quiet = loader->host;
    loader->quiet.log = service_log_quiet;
}
