/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: all checks first, then all places, then what can start starts. */
#include <errno.h>

#include "internal.h"

/* Where the slice lies in this rank's memory. */
static int slice_at(struct zero_comm *comm, const struct zero_coll *c, const struct zero_slice *s,
                    char **at, void **handle)
{
    int err;

    *at = NULL;
    *handle = NULL;
    if (s->len == 0)
        return 0;
    err = zero__coll_check_place(&comm->ctx->voice, c, s, s->mr->exchanged, s->mr->bytes);
    if (err)
        return err;
    *at = s->mr->base + s->off;
    *handle = s->mr->handle;
    return 0;
}

static int coll_make(struct zero_comm *comm, const struct zero_coll *c, struct p2p_coll *coll)
{
    const struct zero__voice *v = &comm->ctx->voice;
    int err = zero__coll_check(v, c, comm->rank, comm->ranks);

    if (!err)
        err = slice_at(comm, c, &c->src, &coll->src, &coll->src_handle);
    if (!err)
        err = slice_at(comm, c, &c->dst, &coll->dst, &coll->dst_handle);
    if (!err)
        err = zero__coll_check_overlap(v, c, comm->rank, coll->src, coll->dst);
    if (!err)
        coll->c = *c;
    return err;
}

static int post_check(struct zero_comm *comm, uint32_t n, const void *stream)
{
    int err = comm->err ? zero__p2p_error(comm) : zero__p2p_usable(comm->ctx);

    return err ? err
               : zero__coll_check_batch(&comm->ctx->voice, n, P2P_SLOTS,
                                        P2P_SLOTS - (comm->posted - comm->completed), stream);
}

int zero__p2p_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    int err = post_check(comm, n, stream);

    for (uint32_t i = 0; i < n && !err; i++)
        err = coll_make(comm, &colls[i], &comm->colls[(comm->posted + i) % P2P_SLOTS]);
    if (err)
        return err;
    comm->posted += n;
    comm->stirred = true;
    return 0;
}
