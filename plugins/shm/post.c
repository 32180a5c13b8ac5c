/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: all checks first, then all slots, then one counter that makes them visible. */
#include <errno.h>

#include "shm.h"

/* Where the slice lies in this rank's memory. */
static int slice_at(struct zero_comm *comm, const struct zero_coll *c, const struct zero_slice *s,
                    char **at)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err;

    *at = NULL;
    if (s->len == 0)
        return 0;
    err = zero__coll_check_place(&ctx->voice, c, s, s->mr->region != SHM_NO_REGION, s->mr->bytes);
    if (!err)
        *at = zero__region_at(ctx, s->mr->region, ctx->rank, s->off, s->len);
    return err;
}

/* What kernels of a device add up; of other types they copy. */
static bool device_reduces(const struct zero_coll *c)
{
    uint32_t floats = 1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16;

    return c->redop == ZERO_SUM && floats & 1u << c->src_dtype && floats & 1u << c->dst_dtype;
}

/* Source and destination are of one kind. */
static int kind_find(const struct zero__voice *v, const struct zero_coll *c, bool *on_device)
{
    bool src = c->src.len && c->src.mr->segment->device;
    bool dst = c->dst.len && c->dst.mr->segment->device;

    *on_device = src || dst;
    if ((c->src.len && src != *on_device) || (c->dst.len && dst != *on_device))
        return zero__say(v, -EINVAL,
                         "%s: source and destination are memory of a device and of the host: take "
                         "one of them, and copy",
                         zero_coll_name(c->kind));
    if (*on_device && zero__coll_reduces(c->kind) && !device_reduces(c))
        return zero__say(v, -ENOTSUP,
                         "%s on memory of a device: sums of fp32, bf16 and fp16 are offered, not "
                         "%s of %s",
                         zero_coll_name(c->kind), c->redop == ZERO_SUM ? "those" : "maxima",
                         zero_dtype_name(c->src_dtype));
    return 0;
}

static int op_make(struct zero_comm *comm, const struct zero_coll *c, struct shm_op *op)
{
    const struct zero__voice *v = &comm->ctx->voice;
    int err = zero__coll_check(v, c, comm->rank, comm->ranks);
    bool on_device = false;

    if (!err)
        err = slice_at(comm, c, &c->src, &op->src);
    if (!err)
        err = slice_at(comm, c, &c->dst, &op->dst);
    if (!err)
        err = kind_find(v, c, &on_device);
    if (!err)
        err = zero__coll_check_overlap(v, c, comm->rank, op->src, op->dst);
    if (err)
        return err;
    op->coll = *c;
    op->on_device = on_device;
    op->streams = on_device ? 0 : zero__coll_streams(c, comm->ranks, &comm->ctx->caches);
    return 0;
}

static int post_check(struct zero_comm *comm, uint32_t n, const void *stream)
{
    int err = zero__shm_error(comm);

    return err ? err
               : zero__coll_check_batch(&comm->ctx->voice, n, SHM_SLOTS,
                                        SHM_SLOTS - (comm->posted - comm->completed), stream);
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
