/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a context, a line of log for each kind that occurred. */
#include <inttypes.h>

#include "trace.h"

static void line(struct zero_comm_ctx *ctx, const char *what, const struct trace_tally *t)
{
    if (t->n)
        zero__tell(&ctx->voice, ZERO_LOG_INFO,
                   "%-14s %10" PRIu64 " %8" PRIu64 " %16" PRIu64 " %12.3f %10.3f %10.3f", what,
                   t->n, t->n_bad, t->bytes, (double)t->total_ns / 1e6,
                   (double)t->total_ns / 1e6 / (double)t->n, (double)t->most_ns / 1e6);
}

void zero__trace_report(struct zero_comm_ctx *ctx)
{
    const struct trace *t = ctx->own;

    zero__tell(&ctx->voice, ZERO_LOG_INFO, "%-14s %10s %8s %16s %12s %10s %10s", "what", "count",
               "failed", "bytes", "total ms", "mean ms", "most ms");
    for (uint32_t kind = 0; kind <= ZERO_BARRIER; kind++)
        line(ctx, zero_coll_name(kind), &t->colls[kind]);
    line(ctx, "progress", &t->progress);
    for (unsigned call = 0; call < ZERO__N_CALLS; call++)
        line(ctx, zero__wrap_call_name(call), &t->calls[call]);
    if (t->full)
        zero__tell(&ctx->voice, ZERO_LOG_INFO, "no room for a post: %" PRIu64 " times", t->full);
}
