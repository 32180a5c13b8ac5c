/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests: `shm` with one defect, which ZERO_WRONG names. Contexts are those of
 * `shm`, and ranks are processes, so what is remembered is global.
 */
#include <zero/comm.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct zero_comm_ops below, ops;
static struct zero_host silent, loud; /* what is below gets the first, of the second */
static bool in_progress;
static const char *how;

static bool is(const char *defect)
{
    return strcmp(how, defect) == 0;
}

/* mute: what it finds in progress() it does not say there. */
__attribute__((format(printf, 4, 5))) static int wrong_fail(void *ctx, const char *plugin, int err,
                                                            const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (is("mute") && in_progress)
        return err;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return loud.fail(ctx, plugin, err, "%s", text);
}

static int wrong_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    struct zero_comm_open inner = *params;

    silent = loud = *params->host;
    silent.fail = wrong_fail;
    inner.host = &silent;
    return below.open(&inner, ctx);
}

/* loses: completions that are not 0 bytes. halves: tells half of their bytes. */
static int wrong_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          int64_t timeout_ns)
{
    int n, kept = 0;

    in_progress = true;
    n = below.progress(ctx, cqes, max, timeout_ns);
    in_progress = false;
    for (int i = 0; i < n; i++) {
        if (is("halves"))
            cqes[i].res /= 2;
        if (!is("loses") || cqes[i].res == 0)
            cqes[kept++] = cqes[i];
    }
    return n < 0 ? n : kept;
}

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    static const struct zero_iface iface = {.kind = ZERO_IFACE_COMM,
                                            .major = ZERO_COMM_MAJOR,
                                            .minor = ZERO_COMM_MINOR,
                                            .ops = &ops};
    static const struct zero_plugin me = {.size = sizeof me,
                                          .name = "wrong",
                                          .version = "1",
                                          .build = "test",
                                          .ifaces = &iface,
                                          .n_ifaces = 1};

    how = host->param(host->ctx, "wrong", "wrong", "", "What is wrong");
    below.size = sizeof below;
    int err = host->stand_on(host->ctx, "wrong", ZERO_IFACE_COMM, "ZERO_WRONG", "shm", &below);
    ops = below;
    ops.size = sizeof ops;
    ops.open = wrong_open;
    ops.progress = wrong_progress;
    *plugin = &me;
    return err;
}
