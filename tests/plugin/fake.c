/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin that is none, built under the names of real ones (FAKE_NAME). Its probe fails with
 * the sentence in the option fake_NAME, or leaves out what fake_lacks says; its open fails and says
 * who it is. With its name in the option fake_opens it opens, and rank 1 cannot make a
 * communicator, of which the others are told that something was aborted before they can know what.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/plugin/stub.h"

struct zero_comm_ctx {
    const struct zero_host *host;
    int rank;
};

static int fake_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const char *why = host->param(host->ctx, FAKE_NAME, "fake_" FAKE_NAME, "", "Why not");
    const char *lacks = host->param(host->ctx, FAKE_NAME, "fake_lacks", "", "What it cannot do");

    caps->flags = (strcmp(lacks, "order") ? ZERO_COMM_ORDERED : 0) |
                  (strcmp(lacks, "network") ? ZERO_COMM_NETWORK : 0);
    caps->kinds = ~(strcmp(lacks, "scatter") ? 0u : 1u << ZERO_REDUCE_SCATTER);
    caps->redops = caps->dtypes = ~0u;
    caps->max_inflight = 16;
    caps->mem = strcmp(lacks, "memory") ? ZERO_MEM_HOST : 0;
    return *why ? host->fail(host->ctx, FAKE_NAME, -ENODEV, "%s", why) : 0;
}

static int fake_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero_host *host = params->host;
    struct zero_comm_ctx *ctx;

    if (!strstr(host->param(host->ctx, FAKE_NAME, "fake_opens", "", "Which fail later"), FAKE_NAME))
        return host->fail(host->ctx, FAKE_NAME, -ENOTSUP, "this is " FAKE_NAME);
    ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return -ENOMEM;
    ctx->host = host;
    ctx->rank = params->oob->rank;
    *out = ctx;
    return 0;
}

static int fake_close(struct zero_comm_ctx *ctx)
{
    free(ctx);
    return 0;
}

static int fake_nothing(struct zero_comm_ctx *ctx)
{
    (void)ctx;
    return 0;
}

static int fake_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                      int32_t key, struct zero_comm **out)
{
    const struct timespec later = {0, 200000000};

    (void)parent, (void)color, (void)key, (void)out;
    if (ctx->rank != 1)
        return ctx->host->fail(ctx->host->ctx, FAKE_NAME, -ECANCELED, "it was aborted");
    nanosleep(&later, NULL);
    return ctx->host->fail(ctx->host->ctx, FAKE_NAME, -ENOMEM,
                           "no room for a communicator of " FAKE_NAME);
}

static const struct zero_comm_ops ops = {.size = sizeof ops,
                                         .probe = fake_probe,
                                         .open = fake_open,
                                         .close = fake_close,
                                         STUB_ENTRY(reg),
                                         STUB_ENTRY(unreg),
                                         STUB_ENTRY(exchange),
                                         STUB_ENTRY(progress),
                                         .wake = fake_nothing,
                                         .abort = fake_nothing,
                                         .split = fake_split,
                                         STUB_ENTRY(post),
                                         STUB_ENTRY(error),
                                         STUB_ENTRY(wire_bytes),
                                         STUB_ENTRY(comm_close)};
static const struct zero_iface ifaces[] = {STUB_GOOD_IFACE(&ops)};
static const struct zero_plugin plugin = STUB_PLUGIN(FAKE_NAME, ifaces);
STUB_MAIN(plugin)
