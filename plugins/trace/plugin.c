/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin `trace`; see trace.h. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "trace.h"
#include "machine/clock.h"

static int trace_begin(struct zero_comm_ctx *ctx)
{
    ctx->own = calloc(1, sizeof(struct trace));
    return ctx->own ? 0 : zero__say(&ctx->voice, -ENOMEM, "no memory for a context");
}

static void trace_end(struct zero_comm_ctx *ctx)
{
    struct trace *t = ctx->own;

    if (t->calls[ZERO__CALL_OPEN].n > t->calls[ZERO__CALL_OPEN].n_bad)
        zero__trace_report(ctx);
    free(t);
}

static void trace_after(struct zero_comm_ctx *ctx, enum zero__wrap_call call, int err,
                        uint64_t bytes, int64_t start_ns)
{
    struct trace *t = ctx->own;
    int64_t ns = zero__now_ns() - start_ns;

    zero__trace_count(&t->calls[call], err, bytes, ns);
    if (bytes)
        zero__tell(&ctx->voice, ZERO_LOG_TRACE, "%s of %" PRIu64 " bytes = %d in %.3f ms",
                   zero__wrap_call_name(call), bytes, err, (double)ns / 1e6);
    else
        zero__tell(&ctx->voice, ZERO_LOG_TRACE, "%s = %d in %.3f ms", zero__wrap_call_name(call),
                   err, (double)ns / 1e6);
}

static const struct zero__wrapper wrapper = {
    .name = TRACE_NAME,
    .option = "trace_comm",
    .begin = trace_begin,
    .end = trace_end,
    .after = trace_after,
};

static int trace_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    return zero__wrap_probe(&wrapper, host, caps);
}

static int trace_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    return zero__wrap_open(&wrapper, params, ctx);
}

static void note_post(struct zero_comm *comm, const struct zero_coll *c, uint64_t place, int err)
{
    bool moves = c->kind != ZERO_BARRIER;

    zero__tell(&comm->ctx->voice, err ? ZERO_LOG_DEBUG : ZERO_LOG_TRACE,
               "post of %s %" PRIu64 " on communicator %u = %d: %" PRIu64
               " %s to %s, flags 0x%x, group %u epoch %u sequence %" PRIu64,
               zero_coll_name(c->kind), place, comm->number, err, c->count,
               moves ? zero_dtype_name(c->src_dtype) : "-",
               moves ? zero_dtype_name(c->dst_dtype) : "-", c->flags, c->group, c->epoch,
               c->sequence);
}

static int trace_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                      void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct trace *t = ctx->own;
    int err;

    if (stream)
        return zero__say(&ctx->voice, -ENOTSUP, "post: streams are not traced: post without one");
    err = zero__wrap_take(comm, colls, n);
    if (!err) {
        err = ctx->below.post(comm->inner, comm->batch, n, NULL);
        if (err)
            zero__wrap_give_batch(comm, n);
    }
    t->full += err == -EAGAIN;
    for (uint32_t i = 0; i < n && err != -EAGAIN; i++)
        note_post(comm, &colls[i], comm->posted + i, err);
    if (!err)
        comm->posted += n;
    return err;
}

static void note_completion(struct zero_comm_ctx *ctx, const struct zero__wrap_record *r,
                            int64_t res)
{
    const struct zero_coll *c = &r->coll;
    uint64_t bytes = c->src.len > c->dst.len ? c->src.len : c->dst.len;
    int64_t ns = zero__now_ns() - r->start_ns;
    struct trace *t = ctx->own;

    if (c->kind <= ZERO_BARRIER)
        zero__trace_count(&t->colls[c->kind], res, bytes, ns);
    zero__tell(&ctx->voice, ZERO_LOG_TRACE,
               "%s %" PRIu64 " on communicator %u = %" PRId64 " after %.3f ms, %" PRIu64 " bytes",
               zero_coll_name(c->kind), r->place, r->comm->number, res, (double)ns / 1e6, bytes);
}

static int trace_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          int64_t timeout_ns)
{
    int64_t start = zero__now_ns();
    struct trace *t = ctx->own;
    int n = ctx->below.progress(ctx->inner, cqes, max, timeout_ns);

    zero__trace_count(&t->progress, n, 0, zero__now_ns() - start);
    for (int i = 0; i < n; i++) {
        struct zero__wrap_record *r = zero__wrap_ended(ctx, cqes[i].user);
        if (!r)
            return -EPROTO;
        note_completion(ctx, r, cqes[i].res);
        cqes[i] = zero__wrap_complete(r, cqes[i].res);
    }
    return n;
}

ZERO__WRAP_PLUGIN(TRACE_NAME, &wrapper, trace_probe, trace_open, trace_post, trace_progress)
