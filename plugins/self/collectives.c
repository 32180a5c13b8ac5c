/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting and executing. post() only checks and queues; progress() does the work, in order per
 * communicator, in pieces, so that one large copy does not hold up the thread that calls it.
 */
#include <errno.h>

#include "../common/copy.h"
#include "../common/reduce.h"
#include "self.h"

static char *slice_base(const struct zero_slice *s)
{
    return s->len ? s->mr->base + s->off : NULL;
}

static int check_slice(struct zero_comm_ctx *ctx, const struct zero_coll *c,
                       const struct zero_slice *s)
{
    return s->len ? zero__coll_check_place(&ctx->voice, c, s, s->mr->exchanged, s->mr->bytes) : 0;
}

static int check(struct zero_comm *comm, const struct zero_coll *c)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = zero__coll_check(&ctx->voice, c, 0, 1);

    if (!err)
        err = check_slice(ctx, c, &c->src);
    if (!err)
        err = check_slice(ctx, c, &c->dst);
    if (!err)
        err = zero__coll_check_overlap(&ctx->voice, c, 0, slice_base(&c->src), slice_base(&c->dst));
    return err;
}

int zero__self_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err;

    if (atomic_load(&ctx->aborted))
        return zero__say(&ctx->voice, -ECANCELED, "the context was aborted");
    err = zero__coll_check_batch(&ctx->voice, n, SELF_INFLIGHT,
                                 SELF_INFLIGHT - (comm->posted - comm->completed), stream);
    for (uint32_t i = 0; i < n && !err; i++)
        err = check(comm, &colls[i]);
    if (err)
        return err;
    for (uint32_t i = 0; i < n; i++)
        comm->queue[comm->posted++ % SELF_INFLIGHT] = colls[i];
    return 0;
}

/* Elements first … first + n of a collective that moves data. */
static void run(struct zero_comm *comm, const struct zero_coll *c, uint64_t first, uint64_t n)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    const void *src = slice_base(&c->src);
    char *dst = slice_base(&c->dst);
    unsigned streams = zero__coll_streams(c, 1, &ctx->caches);

    if (!zero__coll_reduces(c->kind)) {
        uint64_t size = zero_dtype_bytes(c->src_dtype);
        if (!(c->flags & ZERO_COLL_INPLACE))
            zero__copy(ctx->isa, dst + first * size, (const char *)src + first * size, n * size,
                       streams & ZERO__STREAM_COPIES ? ZERO__COPY_STREAM : ZERO__COPY_ANY);
        return;
    }
    struct zero__reduce r = {
        .dst = dst,
        .src = &src,
        .n = 1,
        .src_dtype = c->src_dtype,
        .dst_dtype = c->dst_dtype,
        .redop = c->redop,
        .scale = c->scale,
        .accumulate = (c->flags & ZERO_COLL_ACCUMULATE) != 0,
        .stream = (streams & ZERO__STREAM_SUMS) && !(c->flags & ZERO_COLL_ACCUMULATE),
        .first = first,
        .count = n,
    };
    zero__reduce(ctx->isa, &r);
}

/* Does up to *budget bytes of the oldest collective; 1 when it is finished. */
static int advance(struct zero_comm *comm, uint64_t *budget)
{
    const struct zero_coll *c = &comm->queue[comm->completed % SELF_INFLIGHT];
    uint64_t count = c->dst.len ? c->count : 0, size = zero_dtype_bytes(c->src_dtype);

    if (count) {
        uint64_t left = count - comm->done, n = (*budget / size / 64 + 1) * 64;
        n = n < left ? n : left;
        run(comm, c, comm->done, n);
        comm->done += n;
        *budget -= n * size < *budget ? n * size : *budget;
        if (comm->done < count)
            return 0;
    }
    comm->done = 0;
    comm->completed++;
    return 1;
}

/* One round over the communicators; returns how many completions it made. */
static uint32_t round_trip(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max)
{
    int aborted = atomic_load(&ctx->aborted) != 0;
    uint64_t budget = SELF_PIECE;
    uint32_t n = 0;

    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        while (n < max && budget && comm->posted != comm->completed) {
            const struct zero_coll *c = &comm->queue[comm->completed % SELF_INFLIGHT];
            struct zero_cqe cqe = {c->user, aborted ? -ECANCELED : (int64_t)c->dst.len};
            if (aborted)
                comm->completed++;
            else if (!advance(comm, &budget))
                break;
            cqes[n++] = cqe;
        }
    return n;
}

int zero__self_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                        int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? zero__deadline_ns(timeout_ns) : 0;

    for (;;) {
        uint32_t n = max ? round_trip(ctx, cqes, max) : 0;
        if (n || timeout_ns <= 0 || max == 0 || atomic_exchange(&ctx->woken, 0))
            return (int)n;
        if (!ZERO__ALL_COMPLETED(ctx->comms))
            continue;
        if (atomic_load(&ctx->aborted))
            return zero__say(&ctx->voice, -ECANCELED, "the context was aborted");
        uint32_t seen = zero__bell_announce(&ctx->bell);
        if (!atomic_load(&ctx->woken) && !atomic_load(&ctx->aborted))
            zero__bell_sleep(&ctx->bell, seen, until);
        zero__bell_leave(&ctx->bell);
        if (zero__now_ns() >= until) {
            atomic_store(&ctx->woken, 0);
            return 0;
        }
    }
}
