/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: all checks first, then all slots, then one counter that makes them visible. */
#include <errno.h>

#include "shm.h"

/* Where the slice lies in this rank's memory. */
static int slice_at(struct zero_comm *comm, const struct zero_coll *c, const struct zero_slice *s,
                    char **at)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    *at = NULL;
    if (s->len == 0)
        return 0;
    if (s->mr->region == SHM_NO_REGION)
        return zero__say(&ctx->voice, -EINVAL, "%s: the memory was not exchanged",
                         zero_coll_name(c->kind));
    *at = zero__region_at(ctx, s->mr->region, ctx->rank, s->off, s->len);
    if (!*at)
        return zero__say(&ctx->voice, -ERANGE, "%s: bytes %llu + %llu lie outside a region of %llu",
                         zero_coll_name(c->kind), (unsigned long long)s->off,
                         (unsigned long long)s->len, (unsigned long long)s->mr->bytes);
    return 0;
}

static int op_make(struct zero_comm *comm, const struct zero_coll *c, struct shm_op *op)
{
    const struct zero__voice *v = &comm->ctx->voice;
    int err = zero__coll_check(v, c, comm->rank, comm->ranks);

    if (!err)
        err = slice_at(comm, c, &c->src, &op->src);
    if (!err)
        err = slice_at(comm, c, &c->dst, &op->dst);
    if (!err)
        err = zero__coll_check_overlap(v, c, comm->rank, op->src, op->dst);
    if (err)
        return err;
    op->coll = *c;
    op->streams =
        zero__coll_streams(c, comm->ranks, comm->ctx->caches.sums, comm->ctx->caches.copies);
    return 0;
}

static int post_check(struct zero_comm *comm, uint32_t n, const void *stream)
{
    int err = zero__shm_error(comm);

    if (err)
        return err;
    if (stream)
        return zero__say(&comm->ctx->voice, -ENOTSUP, "shm takes no stream");
    if (n > SHM_SLOTS)
        return zero__say(&comm->ctx->voice, -EINVAL, "a batch of %u is larger than %u", n,
                         SHM_SLOTS);
    return n > SHM_SLOTS - (comm->posted - comm->completed) ? -EAGAIN : 0;
}

static void post_make(const struct zero_coll *c, uint64_t index, struct shm_post *post)
{
    zero__fingerprint_make(c, index, &post->print);
    post->src_region = c->src.len ? c->src.mr->region : SHM_NO_REGION;
    post->dst_region = c->dst.len ? c->dst.mr->region : SHM_NO_REGION;
    post->src_off = c->src.off;
    post->dst_off = c->dst.off;
}

int zero__shm_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    struct shm_lane *lane = &comm->lanes[comm->rank];
    uint64_t wake = 0, old = comm->posted;
    int err = post_check(comm, n, stream);

    if (err)
        return err;
    for (uint32_t i = 0; i < n; i++) {
        err = op_make(comm, &colls[i], &comm->ops[(comm->posted + i) % SHM_SLOTS]);
        if (err)
            return err;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t s = comm->posted + i;
        post_make(&colls[i], s, &lane->ring[s % SHM_SLOTS].post);
        if (colls[i].kind == ZERO_ALL_GATHER || colls[i].kind == ZERO_BROADCAST)
            wake = colls[i].src.len > wake ? colls[i].src.len : wake;
    }
    comm->posted += n;
    atomic_store(&lane->posted, comm->posted);
    if (n)
        zero__comm_ring(comm, wake >= SHM_EAGER ? SHM_RING_NOW : SHM_RING_IF_LAST_POST, old);
    return 0;
}
