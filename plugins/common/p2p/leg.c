/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the legs of a step carry. The chunk of a shard begins at the host after its owner's. Step t
 * of a rank, in a reduction over H hosts, is about the shards of the host h - 1 - t:
 *
 *   t < H      its own column's shard: every local gives its part of it, and from the host before
 *              comes the sum over the hosts so far; the new sum goes on to the next host. At H - 1
 *              the shard is this rank's own, and finished.
 *   H <= t     in an all_reduce: with g = t - H, the finished shard of host h - 1 - g comes from
 * the host before (but in the last step), those of host h - g from the locals; what came from the
 * host before goes on, to the next host and to the locals.
 *
 * An all_gather has one step instead of the first H, in which it passes on what it gathers. The
 * first sum of a plain ring is a rank's source, and goes on as it is; every other sum is fp32 for
 * fp32, bf16 and fp16, so that only the order of additions differs from direct exchange.
 */
#include "../reduce.h"
#include "internal.h"

uint64_t zero__p2p_wide(const struct zero_coll *c)
{
    return zero__dtype_is_float(c->src_dtype) ? 4 : zero_dtype_bytes(c->src_dtype);
}

void zero__p2p_shard(const struct zero_coll *c, int32_t p, int32_t ranks, uint64_t *first,
                     uint64_t *count)
{
    *first = (uint64_t)p * c->count;
    *count = c->count;
    if (c->kind == ZERO_ALL_REDUCE)
        zero__coll_part(c->count, p, ranks, first, count);
}

/* Elements of the step's chunk of rank p's shard. */
static void chunk_of(const struct zero_comm *comm, const struct p2p_step *step, int32_t p,
                     uint64_t *first, uint64_t *n)
{
    uint64_t done = step->chunk * step->run->chunk, count;

    zero__p2p_shard(&step->run->coll->c, p, comm->ranks, first, &count);
    *n = count > done ? count - done : 0;
    *n = *n < step->run->chunk ? *n : step->run->chunk;
    *first += done;
}

/* The rank with that place on the host that lies `back` hosts before this one. */
static int32_t rank_at(const struct p2p_way *w, int32_t back, int32_t local)
{
    int32_t host = ((w->host - back) % w->hosts + w->hosts) % w->hosts;
    return w->grid[host * w->locals + local];
}

static bool accumulates(const struct p2p_run *run)
{
    return run->coll->c.kind == ZERO_ALL_REDUCE && (run->coll->c.flags & ZERO_COLL_ACCUMULATE);
}

static char *buffer(const struct zero_comm *comm, const struct p2p_step *step, int32_t x)
{
    return step->buffers + (uint64_t)x * comm->chunk_bytes;
}

/* Where a step leaves its sum: where the one before came, but for a ring, where that may be bf16.
 */
static char *sum_at(const struct zero_comm *comm, const struct p2p_step *step)
{
    return buffer(comm, step, comm->way.locals == 1 ? 1 : comm->way.local);
}

/* The sum that arrives in step t is a rank's source as it was. */
static bool is_bare(const struct p2p_way *w, int32_t t)
{
    return w->locals == 1 && t == 1;
}

static uint64_t sum_bytes(const struct p2p_way *w, const struct zero_coll *c, int32_t t)
{
    return is_bare(w, t) ? zero_dtype_bytes(c->src_dtype) : zero__p2p_wide(c);
}

static void load_in(const struct zero_comm *comm, const struct p2p_step *step, int32_t x,
                    struct p2p_load *l)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_run *run = step->run;
    const struct zero_coll *c = &run->coll->c;
    int32_t g = step->t - run->sums;
    bool ring = x == w->local;
    uint64_t first, n;

    l->peer = rank_at(w, ring ? 1 : 0, x);
    l->step = step->index;
    l->at = buffer(comm, step, x);
    l->handle = comm->handle;
    if (g < 0) {
        if (!zero__coll_reduces(c->kind) || (ring && step->t == 0))
            return;
        chunk_of(comm, step, rank_at(w, step->t + 1, w->local), &first, &n);
        l->bytes = n * (ring ? sum_bytes(w, c, step->t) : zero_dtype_bytes(c->src_dtype));
        return;
    }
    if (ring && g == run->gathers - 1)
        return;
    chunk_of(comm, step, rank_at(w, ring ? g + 1 : g, x), &first, &n);
    l->bytes = n * zero_dtype_bytes(c->dst_dtype);
    if (!accumulates(run)) {
        l->at = run->coll->dst + first * zero_dtype_bytes(c->dst_dtype);
        l->handle = run->coll->dst_handle;
    }
}

/* This rank's part of what a local sums. */
static void load_give(const struct zero_comm *comm, const struct p2p_step *step, int32_t x,
                      struct p2p_load *l)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_run *run = step->run;
    uint64_t first, n, size = zero_dtype_bytes(run->coll->c.src_dtype);

    if (x == w->local || step->t >= run->sums || !zero__coll_reduces(run->coll->c.kind))
        return;
    chunk_of(comm, step, rank_at(w, step->t + 1, x), &first, &n);
    l->peer = rank_at(w, 0, x);
    l->step = step->index;
    l->at = run->coll->src + first * size;
    l->handle = run->coll->src_handle;
    l->bytes = n * size;
}

/* A sum on its way, to the next host. */
static void load_sum(const struct zero_comm *comm, const struct p2p_step *step, struct p2p_load *l)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_coll *coll = step->run->coll;
    uint64_t first, n;

    chunk_of(comm, step, rank_at(w, step->t + 1, w->local), &first, &n);
    l->bytes = n * sum_bytes(w, &coll->c, step->t + 1);
    l->at = sum_at(comm, step);
    l->handle = comm->handle;
    if (is_bare(w, step->t + 1)) {
        l->at = coll->src + first * zero_dtype_bytes(coll->c.src_dtype);
        l->handle = coll->src_handle;
    }
}

/* A finished shard: this rank's own, or one that has come from the host before. */
static void load_shard(const struct zero_comm *comm, const struct p2p_step *step,
                       struct p2p_load *l)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_run *run = step->run;
    const struct p2p_coll *coll = run->coll;
    uint64_t first, n, size = zero_dtype_bytes(coll->c.dst_dtype);
    int32_t g = step->t - run->sums;

    chunk_of(comm, step, rank_at(w, g + 1, w->local), &first, &n);
    l->bytes = n * size;
    l->at = coll->dst + first * size;
    l->handle = coll->dst_handle;
    if (accumulates(run)) {
        l->at = g < 0 ? sum_at(comm, step) : buffer(comm, step, w->local);
        l->handle = comm->handle;
    } else if (g < 0 && coll->c.kind == ZERO_ALL_GATHER) {
        l->at = coll->src + step->chunk * run->chunk * size;
        l->handle = coll->src_handle;
    }
}

static void load_pass(const struct zero_comm *comm, const struct p2p_step *step, int32_t x,
                      struct p2p_load *l)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_run *run = step->run;
    int32_t g = step->t - run->sums;
    bool ring = x == w->local;

    l->peer = rank_at(w, ring ? -1 : 0, x);
    l->step = step->next;
    if (g < -1) {
        if (ring)
            load_sum(comm, step, l);
    } else if (g < run->gathers - 1 && !(ring && g == run->gathers - 2)) {
        load_shard(comm, step, l);
    }
}

struct p2p_load zero__p2p_load(const struct zero_comm *comm, const struct p2p_step *step,
                               enum p2p_leg_kind kind, int32_t x)
{
    struct p2p_load l = {0};

    if (kind == P2P_IN)
        load_in(comm, step, x, &l);
    else if (kind == P2P_GIVE)
        load_give(comm, step, x, &l);
    else
        load_pass(comm, step, x, &l);
    return l;
}

/* dst += what has come, which is fp32. */
static void add_to(struct zero_comm *comm, char *dst, const char *from, uint64_t n)
{
    const void *source = from;
    const struct zero__reduce r = {.dst = dst,
                                   .src = &source,
                                   .n = 1,
                                   .src_dtype = ZERO_F32,
                                   .dst_dtype = ZERO_F32,
                                   .redop = ZERO_SUM,
                                   .scale = 1,
                                   .accumulate = true,
                                   .count = n};
    zero__reduce(comm->ctx->isa, &r);
}

/* Finished shards that could not come to their place, since they are added there. */
static uint64_t add_shards(struct zero_comm *comm, const struct p2p_step *step)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_run *run = step->run;
    int32_t g = step->t - run->sums;
    uint64_t first, n, bytes = 0;

    if (!accumulates(run))
        return 0;
    for (int32_t x = 0; x < w->locals; x++) {
        struct p2p_load l = zero__p2p_load(comm, step, P2P_IN, x);
        chunk_of(comm, step, rank_at(w, x == w->local ? g + 1 : g, x), &first, &n);
        if (l.bytes)
            add_to(comm, run->coll->dst + first * 4, l.at, n);
        bytes += l.bytes;
    }
    return bytes;
}

uint64_t zero__p2p_step_sum(struct zero_comm *comm, const struct p2p_step *step)
{
    const struct p2p_way *w = &comm->way;
    const struct p2p_run *run = step->run;
    const struct zero_coll *c = &run->coll->c;
    bool last = step->t == run->sums - 1, kept = last && accumulates(run);
    const char *before = buffer(comm, step, w->local);
    bool partial = step->t > 0 && !is_bare(w, step->t) && zero__dtype_is_float(c->src_dtype);
    uint64_t first, n, size = zero_dtype_bytes(c->src_dtype);
    uint32_t m = 0;

    if (step->t >= run->sums)
        return add_shards(comm, step);
    chunk_of(comm, step, rank_at(w, step->t + 1, w->local), &first, &n);
    if (!zero__coll_reduces(c->kind) || n == 0 || is_bare(w, step->t + 1))
        return 0;
    if (step->t > 0 && !partial)
        comm->sources[m++] = before;
    for (int32_t x = 0; x < w->locals; x++)
        comm->sources[m++] = x == w->local ? run->coll->src + first * size : buffer(comm, step, x);
    struct zero__reduce r = {
        .dst = sum_at(comm, step),
        .src = comm->sources,
        .n = m,
        .src_dtype = c->src_dtype,
        .dst_dtype = zero__dtype_is_float(c->src_dtype) ? ZERO_F32 : c->src_dtype,
        .redop = c->redop,
        .scale = last ? c->scale : 1,
        .count = n,
        .partial = partial ? (const float *)(const void *)before : NULL,
    };
    if (last && !kept) {
        uint64_t to = c->kind == ZERO_REDUCE_SCATTER ? step->chunk * run->chunk : first;
        r.dst = run->coll->dst + to * zero_dtype_bytes(c->dst_dtype);
        r.dst_dtype = c->dst_dtype;
        r.accumulate = c->flags & ZERO_COLL_ACCUMULATE ? 1 : 0;
        r.stream = (run->streams & ZERO__STREAM_SUMS) && !r.accumulate;
    }
    zero__reduce(comm->ctx->isa, &r);
    if (kept)
        add_to(comm, run->coll->dst + first * 4, sum_at(comm, step), n);
    return n * size * (m + partial);
}
