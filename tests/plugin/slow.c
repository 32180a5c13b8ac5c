/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests: another one, that of ZERO_SLOW_PLUGIN, whose
 * completions of gathers and reductions come no sooner than ZERO_SLOW_US after their post, as on a
 * slow wire. (The sums of squares of a step's norm, 8 bytes of fp64, are neither.) With
 * ZERO_SLOW_REVERSE those that are due at once come in reverse order. ZERO_SLOW_ROOM and
 * ZERO_SLOW_SUMS are what it says of itself instead of the other one: how many collectives it takes
 * at once, and the mask of the types that it sums.
 */
#include <zero/comm.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define RECORDS 256
#define BATCH 32

/* A collective posted and not yet reported. */
struct record {
    int used, done;
    uint64_t user, age;
    int64_t res, due_ns;
};

struct zero_comm_ctx {
    struct zero_comm_ops ops;
    struct zero_comm_ctx *inner;
    const struct zero_host *host;
    int64_t delay_ns;
    int reverse;
    uint64_t age;
    struct record records[RECORDS];
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *inner;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int inner_find(const struct zero_host *host, struct zero_comm_ops *ops)
{
    const char *path = host->param(host->ctx, "slow", "slow_plugin", "", "Plugin that is slow");

    ops->size = sizeof *ops;
    return host->stand_on(host->ctx, "slow", ZERO_IFACE_COMM, "ZERO_SLOW_PLUGIN", path, ops);
}

static int slow_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    struct zero_comm_ops ops;
    int err = inner_find(host, &ops);

    if (!err)
        err = ops.probe(host, caps);
    caps->flags &= ~(uint32_t)(ZERO_COMM_STREAM | ZERO_COMM_MAP);
    const char *room = host->param(host->ctx, "slow", "slow_room", "", "Collectives at once");
    const char *sums = host->param(host->ctx, "slow", "slow_sums", "", "Mask of types");
    if (*room)
        caps->max_inflight = (uint32_t)atoi(room);
    if (*sums)
        caps->dtypes = (uint32_t)atoi(sums);
    return err;
}

static int slow_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero_host *host = params->host;
    struct zero_comm_ctx *ctx = calloc(1, sizeof *ctx);

    if (!ctx)
        return -ENOMEM;
    ctx->host = host;
    ctx->delay_ns = 1000 * atoll(host->param(host->ctx, "slow", "slow_us", "0", "Delay"));
    ctx->reverse = atoi(host->param(host->ctx, "slow", "slow_reverse", "0", "Order"));
    int err = inner_find(host, &ctx->ops);
    if (!err)
        err = ctx->ops.open(params, &ctx->inner);
    if (err)
        free(ctx);
    else
        *out = ctx;
    return err;
}

static int slow_close(struct zero_comm_ctx *ctx)
{
    int err = ctx->ops.close(ctx->inner);
    free(ctx);
    return err;
}

static int slow_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                      struct zero_mr **mr)
{
    return ctx->ops.alloc(ctx->inner, bytes, mem, base, mr);
}

static int slow_free(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return ctx->ops.free(ctx->inner, mr);
}

static int slow_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                    struct zero_mr **mr)
{
    return ctx->ops.reg(ctx->inner, base, bytes, mem, mr);
}

static int slow_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return ctx->ops.unreg(ctx->inner, mr);
}

static int slow_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return ctx->ops.exchange(ctx->inner, mr);
}

static int slow_wake(struct zero_comm_ctx *ctx)
{
    return ctx->ops.wake(ctx->inner);
}

static int slow_abort(struct zero_comm_ctx *ctx)
{
    return ctx->ops.abort(ctx->inner);
}

/* The next to be reported: the oldest or the youngest of those that are due; NULL: none. */
static struct record *due(struct zero_comm_ctx *ctx, int64_t now, int64_t *next_ns)
{
    struct record *best = NULL;

    for (int i = 0; i < RECORDS; i++) {
        struct record *r = &ctx->records[i];
        if (!r->used || !r->done)
            continue;
        if (r->due_ns > now)
            *next_ns = r->due_ns < *next_ns ? r->due_ns : *next_ns;
        else if (!best || (ctx->reverse ? r->age > best->age : r->age < best->age))
            best = r;
    }
    return best;
}

static uint32_t deliver(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                        int64_t *next_ns)
{
    int64_t now = now_ns();
    struct record *r;
    uint32_t n = 0;

    while (n < max && (r = due(ctx, now, next_ns))) {
        cqes[n++] = (struct zero_cqe){r->user, r->res};
        r->used = 0;
    }
    return n;
}

static int slow_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                         int64_t timeout_ns)
{
    int64_t next_ns = INT64_MAX;
    uint32_t n = deliver(ctx, cqes, max, &next_ns);
    struct zero_cqe got[BATCH];

    if (n)
        return (int)n;
    if (next_ns != INT64_MAX && timeout_ns > next_ns - now_ns())
        timeout_ns = next_ns - now_ns() > 0 ? next_ns - now_ns() : 0;
    int k = ctx->ops.progress(ctx->inner, got, BATCH, timeout_ns);
    for (int i = 0; i < k; i++) {
        ctx->records[got[i].user].done = 1;
        ctx->records[got[i].user].res = got[i].res;
    }
    return k < 0 ? k : (int)deliver(ctx, cqes, max, &next_ns);
}

static int slow_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                      int32_t key, struct zero_comm **out)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return -ENOMEM;
    comm->ctx = ctx;
    int err = ctx->ops.split(ctx->inner, parent ? parent->inner : NULL, color, key, &comm->inner);
    if (err)
        free(comm);
    else
        *out = comm;
    return err;
}

static int record_new(struct zero_comm_ctx *ctx, const struct zero_coll *c)
{
    int norm = c->src_dtype == ZERO_F64;

    for (int i = 0; i < RECORDS; i++)
        if (!ctx->records[i].used) {
            ctx->records[i] = (struct record){.used = 1,
                                              .user = c->user,
                                              .age = ctx->age++,
                                              .due_ns = now_ns() + (norm ? 0 : ctx->delay_ns)};
            return i;
        }
    return -EAGAIN;
}

static int slow_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                     void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct zero_coll own[BATCH];
    int err = n > BATCH ? -EINVAL : 0, id[BATCH];
    uint32_t made = 0;

    for (; made < n && !err; made++) {
        id[made] = record_new(ctx, &colls[made]);
        if (id[made] < 0) {
            err = id[made];
            break;
        }
        own[made] = colls[made];
        own[made].user = (uint64_t)id[made];
    }
    if (!err)
        err = ctx->ops.post(comm->inner, own, n, stream);
    for (uint32_t i = 0; i < made && err; i++)
        ctx->records[id[i]].used = 0;
    return err;
}

static int slow_error(struct zero_comm *comm)
{
    return comm->ctx->ops.error(comm->inner);
}

static int slow_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    return comm->ctx->ops.missing ? comm->ctx->ops.missing(comm->inner, ranks, max) : 0;
}

static int slow_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    return comm->ctx->ops.wire_bytes(comm->inner, bytes);
}

static int slow_comm_close(struct zero_comm *comm)
{
    int err = comm->ctx->ops.comm_close(comm->inner);
    free(comm);
    return err;
}

static const struct zero_comm_ops ops = {.size = sizeof ops,
                                         .probe = slow_probe,
                                         .open = slow_open,
                                         .close = slow_close,
                                         .alloc = slow_alloc,
                                         .free = slow_free,
                                         .reg = slow_reg,
                                         .unreg = slow_unreg,
                                         .exchange = slow_exchange,
                                         .progress = slow_progress,
                                         .wake = slow_wake,
                                         .abort = slow_abort,
                                         .split = slow_split,
                                         .post = slow_post,
                                         .error = slow_error,
                                         .missing = slow_missing,
                                         .wire_bytes = slow_wire_bytes,
                                         .comm_close = slow_comm_close};

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    static const struct zero_iface iface = {.kind = ZERO_IFACE_COMM,
                                            .major = ZERO_COMM_MAJOR,
                                            .minor = ZERO_COMM_MINOR,
                                            .ops = &ops};
    static const struct zero_plugin me = {.size = sizeof me,
                                          .name = "slow",
                                          .version = "1",
                                          .build = "test",
                                          .ifaces = &iface,
                                          .n_ifaces = 1};

    (void)host;
    *plugin = &me;
    return 0;
}
