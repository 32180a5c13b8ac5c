/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting. A descriptor comes from outside, so all of it is checked before anything happens: first
 * whether it is legal at all, then whether this plugin declared that it can do it, then where its
 * memory lies. Only when the whole batch is good do other ranks see any of it.
 */
#include "comm.h"

#include <errno.h>

static bool is_float(uint32_t dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

/* Of a legal reduction: is it among what probe() declares? */
static int check_declared(const struct zero_host *host, const struct zero_coll *c)
{
    if (!(REDOPS & 1u << c->redop))
        return say(host, -ENOTSUP, "reduction %u is not among what probe() declares", c->redop);
    if (!(DTYPES & 1u << c->src_dtype) || !(DTYPES & 1u << c->dst_dtype))
        return say(host, -ENOTSUP, "reducing %s to %s is not among what probe() declares",
                   zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype));
    if ((c->flags & ZERO_COLL_ACCUMULATE) && !(FLAGS & ZERO_COMM_ACCUMULATE))
        return say(host, -ENOTSUP, "ACCUMULATE is not among what probe() declares");
    return 0;
}

static int check_reduction(const struct zero_host *host, const struct zero_coll *c)
{
    bool sum = c->redop == ZERO_SUM, floats = is_float(c->src_dtype) && is_float(c->dst_dtype);

    if (c->redop > ZERO_MAX)
        return say(host, -ENOTSUP, "reduction %u is unknown to this version", c->redop);
    if (c->src_dtype != c->dst_dtype && !floats)
        return say(host, -EINVAL, "cannot reduce %s to %s", zero_dtype_name(c->src_dtype),
                   zero_dtype_name(c->dst_dtype));
    if (c->scale != 1 && !(sum && (floats || c->src_dtype == ZERO_F64)))
        return say(host, -EINVAL, "scale is %g, but only floating sums are scaled: give 1",
                   (double)c->scale);
    if ((c->flags & ZERO_COLL_ACCUMULATE) &&
        (!sum || !floats || c->dst_dtype != ZERO_F32 || (c->flags & ZERO_COLL_INPLACE)))
        return say(host, -EINVAL,
                   "ACCUMULATE is for floating sums with an fp32 destination, not in place");
    if ((c->flags & ZERO_COLL_INPLACE) && c->src_dtype != c->dst_dtype)
        return say(host, -EINVAL, "INPLACE needs equal types, not %s and %s",
                   zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype));
    return check_declared(host, c);
}

static int check_movement(const struct zero_host *host, const struct zero_coll *c)
{
    uint32_t allowed = c->kind == ZERO_ALL_GATHER ? ZERO_COLL_INPLACE : 0;

    if (c->flags & ~allowed)
        return say(host, -EINVAL, "flags 0x%x do not belong to collective %u", c->flags, c->kind);
    if (c->redop || c->scale != 1)
        return say(host, -EINVAL, "redop is %u and scale %g where nothing is added: give 0 and 1",
                   c->redop, (double)c->scale);
    if (c->kind != ZERO_BARRIER && c->src_dtype != c->dst_dtype)
        return say(host, -EINVAL, "source and destination are %s and %s: types must be equal",
                   zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype));
    return 0;
}

static int check_side(const struct zero_host *host, const struct zero_slice *s, uint32_t dtype,
                      uint64_t elements, const char *side)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(elements, (uint64_t)zero_dtype_bytes(dtype), &bytes))
        return say(host, -EOVERFLOW, "the %s has %llu elements, too many", side,
                   (unsigned long long)elements);
    if (s->len != bytes)
        return say(host, -EINVAL, "the %s is %llu bytes long, but %llu %s need %llu", side,
                   (unsigned long long)s->len, (unsigned long long)elements, zero_dtype_name(dtype),
                   (unsigned long long)bytes);
    return 0;
}

/* Elements of both sides on this rank must be what the slices say. */
static int check_sides(const struct zero_comm *comm, const struct zero_coll *c)
{
    const struct zero_host *host = comm->ctx->host;
    uint64_t src = c->count, dst = c->count, all;
    int err;

    if (__builtin_mul_overflow(c->count, (uint64_t)comm->group.ranks, &all))
        return say(host, -EOVERFLOW, "%llu elements on %d ranks are too many",
                   (unsigned long long)c->count, comm->group.ranks);
    if (c->kind == ZERO_ALL_GATHER)
        dst = all;
    else if (c->kind == ZERO_REDUCE_SCATTER)
        src = all;
    else if (c->kind == ZERO_BROADCAST)
        *(comm->group.rank == c->root ? &dst : &src) = 0;
    err = check_side(host, &c->src, c->src_dtype, src, "source");
    return err ? err : check_side(host, &c->dst, c->dst_dtype, dst, "destination");
}

static int check(const struct zero_comm *comm, const struct zero_coll *c)
{
    const struct zero_host *host = comm->ctx->host;
    bool reduces = c->kind == ZERO_REDUCE_SCATTER || c->kind == ZERO_ALL_REDUCE;
    int err;

    if (c->kind > ZERO_BARRIER || !(KINDS & 1u << c->kind))
        return say(host, -ENOTSUP, "collective %u (%s) is not among what probe() declares", c->kind,
                   zero_coll_name(c->kind));
    if (c->flags & ~(uint32_t)(ZERO_COLL_INPLACE | ZERO_COLL_ACCUMULATE))
        return say(host, -ENOTSUP, "flags 0x%x are unknown to this version", c->flags);
    if (c->reserved0 || c->reserved[0] || c->reserved[1] || c->reserved[2])
        return say(host, -EINVAL, "a reserved field of the collective is not 0");
    if (c->kind == ZERO_BROADCAST ? c->root < 0 || c->root >= comm->group.ranks : c->root != 0)
        return say(host, -EINVAL, "root is %d in a communicator of %d ranks", c->root,
                   comm->group.ranks);
    if (c->kind == ZERO_BARRIER
            ? c->count != 0
            : !zero_dtype_bytes(c->src_dtype) || !zero_dtype_bytes(c->dst_dtype))
        return say(host, -EINVAL, "collective %u has %llu elements of types %u and %u", c->kind,
                   (unsigned long long)c->count, c->src_dtype, c->dst_dtype);
    err = reduces ? check_reduction(host, c) : check_movement(host, c);
    return err ? err : check_sides(comm, c);
}

/* Where a slice is. Written so that no sum of offsets can wrap around. */
static int find(const struct zero_host *host, const struct zero_slice *s, uint32_t dtype, char **at)
{
    *at = NULL;
    if (s->len == 0)
        return 0;
    if (!s->mr)
        return say(host, -EINVAL, "a slice of %llu bytes has no memory",
                   (unsigned long long)s->len);
    if (!s->mr->exchanged)
        return say(host, -EINVAL, "the memory of a slice was not exchanged");
    if (s->off > s->mr->bytes || s->len > s->mr->bytes - s->off)
        return say(host, -ERANGE, "bytes %llu + %llu lie outside a region of %llu",
                   (unsigned long long)s->off, (unsigned long long)s->len,
                   (unsigned long long)s->mr->bytes);
    *at = s->mr->base + s->off;
    if ((uintptr_t)*at % zero_dtype_bytes(dtype))
        return say(host, -EINVAL, "offset %llu is no multiple of an element of %s",
                   (unsigned long long)s->off, zero_dtype_name(dtype));
    return 0;
}

static int check_overlap(const struct zero_comm *comm, const struct op *op)
{
    const struct zero_coll *c = &op->c;
    uintptr_t s = (uintptr_t)op->src, d = (uintptr_t)op->dst;
    uint64_t rank = (uint64_t)comm->group.rank;

    if (!c->src.len || !c->dst.len)
        return 0;
    if (c->flags & ZERO_COLL_INPLACE) {
        if (c->kind == ZERO_ALL_GATHER)
            d += rank * c->src.len;
        else if (c->kind == ZERO_REDUCE_SCATTER)
            s += rank * c->dst.len;
        if (s != d)
            return say(comm->ctx->host, -EINVAL, "INPLACE, but source and destination differ");
    } else if (s < d + c->dst.len && d < s + c->src.len) {
        return say(comm->ctx->host, -EINVAL, "source and destination overlap without INPLACE");
    }
    return 0;
}

static int op_make(struct zero_comm *comm, const struct zero_coll *c, struct op *op)
{
    const struct zero_host *host = comm->ctx->host;
    int err = check(comm, c);

    op->c = *c;
    if (!err)
        err = find(host, &c->src, c->src_dtype, &op->src);
    if (!err)
        err = find(host, &c->dst, c->dst_dtype, &op->dst);
    return err ? err : check_overlap(comm, op);
}

int template_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    struct lane *own = &comm->lanes[comm->group.rank];
    int err = template_error(comm);

    if (err)
        return err;
    if (stream)
        return say(comm->ctx->host, -ENOTSUP, "this plugin takes no stream");
    if (n > SLOTS)
        return say(comm->ctx->host, -EINVAL, "a batch of %u is larger than %u", n, SLOTS);
    if (n > SLOTS - (comm->posted - comm->completed))
        return -EAGAIN; /* no fault: the library asks again after a completion */
    for (uint32_t i = 0; i < n; i++) {
        err = op_make(comm, &colls[i], &comm->ops[(comm->posted + i) % SLOTS]);
        if (err)
            return err; /* all or none */
    }
    for (uint32_t i = 0; i < n; i++)
        own->ring[(comm->posted + i) % SLOTS] = (struct print){
            .count = colls[i].count,
            .sequence = colls[i].sequence,
            .kind = colls[i].kind,
            .flags = colls[i].flags,
            .src_dtype = colls[i].src_dtype,
            .dst_dtype = colls[i].dst_dtype,
            .redop = colls[i].redop,
            .scale_bits = zero_bits_of_float(colls[i].scale),
            .group = colls[i].group,
            .epoch = colls[i].epoch,
            .root = colls[i].root,
        };
    comm->posted += n;
    atomic_store(&own->posted, comm->posted); /* one store makes the batch visible */
    comm_ring(comm);
    return 0;
}
