/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests: `shm` with one defect, which ZERO_WRONG names. Contexts are those of
 * `shm`, and ranks are processes, so what is remembered is global.
 */
#include <zero/comm.h>

#include <stdbool.h>
#include <string.h>

static struct zero_comm_ops below, ops;
static const char *how;

static bool is(const char *defect)
{
    return strcmp(how, defect) == 0;
}

/* loses: completions that are not 0 bytes. halves: tells half of their bytes. */
static int wrong_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          int64_t timeout_ns)
{
    int n = below.progress(ctx, cqes, max, timeout_ns), kept = 0;

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
    ops.progress = wrong_progress;
    *plugin = &me;
    return err;
}
