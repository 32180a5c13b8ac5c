/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests: `self`, but that it ends the first collective twice (ZERO_ASTRAY=twice)
 * or with a tag that nobody gave (ZERO_ASTRAY=foreign). Contexts are those of `self`.
 */
#include <zero/comm.h>

#include <string.h>

static struct zero_comm_ops below, ops;
static int foreign, again, told;
static struct zero_cqe first;

static int astray_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                           int64_t timeout_ns)
{
    if (again && max) {
        again = 0;
        cqes[0] = first;
        return 1;
    }
    int n = below.progress(ctx, cqes, max, timeout_ns);
    if (n <= 0 || told)
        return n;
    told = 1;
    first = cqes[0];
    again = !foreign;
    if (foreign)
        cqes[0].user = 12345;
    return n;
}

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    static const struct zero_iface iface = {.kind = ZERO_IFACE_COMM,
                                            .major = ZERO_COMM_MAJOR,
                                            .minor = ZERO_COMM_MINOR,
                                            .ops = &ops};
    static const struct zero_plugin me = {.size = sizeof me,
                                          .name = "astray",
                                          .version = "1",
                                          .build = "test",
                                          .ifaces = &iface,
                                          .n_ifaces = 1};
    const char *how = host->param(host->ctx, "astray", "astray", "twice", "What goes wrong");

    foreign = !strcmp(how, "foreign");
    below.size = sizeof below;
    int err = host->stand_on(host->ctx, "astray", ZERO_IFACE_COMM, "ZERO_ASTRAY", "self", &below);
    ops = below;
    ops.size = sizeof ops;
    ops.progress = astray_progress;
    *plugin = &me;
    return err;
}
