/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor comes from outside: nothing of it is used before zero__coll_check() has seen it. */
#include "coll.h"

#include <errno.h>

#define PART_BLOCK 64u

static int check_reduction(const struct zero__voice *v, const struct zero_coll *c, const char *name)
{
    int scales =
        c->redop == ZERO_SUM && (zero__dtype_is_float(c->src_dtype) || c->src_dtype == ZERO_F64);

    if (c->redop > ZERO_MAX)
        return zero__say(v, -ENOTSUP, "%s: unknown reduction %u", name, c->redop);
    if (c->src_dtype != c->dst_dtype &&
        (!zero__dtype_is_float(c->src_dtype) || !zero__dtype_is_float(c->dst_dtype)))
        return zero__say(v, -EINVAL, "%s: cannot reduce %s to %s", name,
                         zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype));
    if (c->scale != 1 && !scales)
        return zero__say(v, -EINVAL, "%s: scale is %g, but only floating sums are scaled: give 1",
                         name, (double)c->scale);
    if (c->flags & ZERO_COLL_ACCUMULATE) {
        if (c->redop != ZERO_SUM || !zero__dtype_is_float(c->src_dtype) || c->dst_dtype != ZERO_F32)
            return zero__say(v, -EINVAL,
                             "%s: ACCUMULATE takes floating sums with an fp32 destination", name);
        if (c->flags & ZERO_COLL_INPLACE)
            return zero__say(v, -EINVAL, "%s: ACCUMULATE and INPLACE exclude each other", name);
    }
    if ((c->flags & ZERO_COLL_INPLACE) && c->src_dtype != c->dst_dtype)
        return zero__say(v, -EINVAL, "%s: INPLACE needs equal types, not %s and %s", name,
                         zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype));
    return 0;
}

static int check_movement(const struct zero__voice *v, const struct zero_coll *c, const char *name)
{
    if (c->flags & ~(uint32_t)(c->kind == ZERO_ALL_GATHER ? ZERO_COLL_INPLACE : 0))
        return zero__say(v, -EINVAL, "%s: flags 0x%x do not belong to it", name, c->flags);
    if (c->redop != 0 || c->scale != 1)
        return zero__say(v, -EINVAL, "%s: redop is %u and scale %g: give 0 and 1", name, c->redop,
                         (double)c->scale);
    if (c->kind != ZERO_BARRIER && c->src_dtype != c->dst_dtype)
        return zero__say(v, -EINVAL, "%s: types differ (%s, %s)", name,
                         zero_dtype_name(c->src_dtype), zero_dtype_name(c->dst_dtype));
    return 0;
}

/* Elements of the source and of the destination on this rank. */
static int elements(const struct zero_coll *c, int32_t rank, int32_t ranks, uint64_t *src,
                    uint64_t *dst)
{
    uint64_t all;

    if (__builtin_mul_overflow(c->count, (uint64_t)ranks, &all))
        return -EOVERFLOW;
    *src = *dst = c->count;
    if (c->kind == ZERO_ALL_GATHER)
        *dst = all;
    else if (c->kind == ZERO_REDUCE_SCATTER)
        *src = all;
    else if (c->kind == ZERO_BROADCAST)
        *(rank == c->root ? dst : src) = 0;
    else if (c->kind == ZERO_BARRIER)
        *src = *dst = 0;
    return 0;
}

static int check_slice(const struct zero__voice *v, const struct zero_slice *s, uint32_t dtype,
                       uint64_t n, const char *name, const char *side)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(n, (uint64_t)zero_dtype_bytes(dtype), &bytes))
        return zero__say(v, -EOVERFLOW, "%s: the %s has %llu elements, too many", name, side,
                         (unsigned long long)n);
    if (s->len != bytes)
        return zero__say(v, -EINVAL, "%s: the %s is %llu bytes long, but %llu %s need %llu", name,
                         side, (unsigned long long)s->len, (unsigned long long)n,
                         zero_dtype_name(dtype), (unsigned long long)bytes);
    if (bytes && !s->mr)
        return zero__say(v, -EINVAL, "%s: the %s has no memory", name, side);
    return 0;
}

int zero__coll_check(const struct zero__voice *v, const struct zero_coll *c, int32_t rank,
                     int32_t ranks)
{
    const char *name = zero_coll_name(c->kind);
    uint64_t src, dst;
    int err;

    if (c->kind > ZERO_BARRIER)
        return zero__say(v, -ENOTSUP, "collective %u is unknown to this version", c->kind);
    if (c->flags & ~(uint32_t)(ZERO_COLL_INPLACE | ZERO_COLL_ACCUMULATE))
        return zero__say(v, -ENOTSUP, "%s: flags 0x%x are unknown to this version", name, c->flags);
    if (c->reserved0 || c->reserved[0] || c->reserved[1] || c->reserved[2])
        return zero__say(v, -EINVAL, "%s: a reserved field is not 0", name);
    if (c->kind == ZERO_BROADCAST ? c->root < 0 || c->root >= ranks : c->root != 0)
        return zero__say(v, -EINVAL, "%s: root is %d of %d ranks", name, c->root, ranks);
    if (c->kind == ZERO_BARRIER) {
        if (c->count)
            return zero__say(v, -EINVAL, "barrier: count is %llu, but it carries no data",
                             (unsigned long long)c->count);
    } else if (!zero_dtype_bytes(c->src_dtype) || !zero_dtype_bytes(c->dst_dtype)) {
        return zero__say(v, -EINVAL, "%s: element types %u and %u: one is unknown", name,
                         c->src_dtype, c->dst_dtype);
    }
    err = zero__coll_reduces(c->kind) ? check_reduction(v, c, name) : check_movement(v, c, name);
    if (err)
        return err;
    if (elements(c, rank, ranks, &src, &dst))
        return zero__say(v, -EOVERFLOW, "%s: %llu elements on %d ranks are too many", name,
                         (unsigned long long)c->count, ranks);
    err = check_slice(v, &c->src, c->src_dtype, src, name, "source");
    return err ? err : check_slice(v, &c->dst, c->dst_dtype, dst, name, "destination");
}

int zero__coll_check_place(const struct zero__voice *v, const struct zero_coll *c,
                           const struct zero_slice *s, bool exchanged, uint64_t bytes)
{
    const char *name = zero_coll_name(c->kind);

    if (!exchanged)
        return zero__say(v, -EINVAL, "%s: the memory was not exchanged", name);
    if (s->off > bytes || s->len > bytes - s->off)
        return zero__say(v, -ERANGE, "%s: bytes %llu + %llu lie outside a region of %llu", name,
                         (unsigned long long)s->off, (unsigned long long)s->len,
                         (unsigned long long)bytes);
    return 0;
}

int zero__coll_check_batch(const struct zero__voice *v, uint32_t n, uint32_t most, uint64_t left,
                           const void *stream)
{
    if (stream)
        return zero__say(v, -ENOTSUP, "%s takes no stream", v->plugin);
    if (n > most)
        return zero__say(v, -EINVAL, "a batch of %u is larger than %u", n, most);
    return n > left ? -EAGAIN : 0;
}

int zero__coll_check_overlap(const struct zero__voice *v, const struct zero_coll *c, int32_t rank,
                             const void *src, const void *dst)
{
    const char *name = zero_coll_name(c->kind);
    uintptr_t s = (uintptr_t)src, d = (uintptr_t)dst;

    if (c->src.len == 0 || c->dst.len == 0)
        return 0;
    if (s % zero_dtype_bytes(c->src_dtype) || d % zero_dtype_bytes(c->dst_dtype))
        return zero__say(v, -EINVAL, "%s: an offset (%llu, %llu) is no multiple of the element",
                         name, (unsigned long long)c->src.off, (unsigned long long)c->dst.off);
    if (c->flags & ZERO_COLL_INPLACE) {
        if (c->kind == ZERO_ALL_GATHER)
            d += (uint64_t)rank * c->src.len;
        else if (c->kind == ZERO_REDUCE_SCATTER)
            s += (uint64_t)rank * c->dst.len;
        if (s != d)
            return zero__say(v, -EINVAL, "%s: INPLACE, but source and destination differ", name);
    } else if (s < d + c->dst.len && d < s + c->src.len) {
        return zero__say(v, -EINVAL, "%s: source and destination overlap without INPLACE", name);
    }
    return 0;
}

void zero__coll_part(uint64_t count, int32_t rank, int32_t ranks, uint64_t *first, uint64_t *n)
{
    uint64_t blocks = count / PART_BLOCK + (count % PART_BLOCK != 0);
    uint64_t each = blocks / (uint64_t)ranks + (blocks % (uint64_t)ranks != 0);
    uint64_t begin = each * (uint64_t)rank, end = begin + each;

    begin = begin < blocks ? begin * PART_BLOCK : count;
    end = end < blocks ? end * PART_BLOCK : count;
    *first = begin;
    *n = end - begin;
}

uint64_t zero__coll_wire(const struct zero_coll *c, int32_t rank, int32_t ranks)
{
    uint64_t others = (uint64_t)ranks - 1, size = zero_dtype_bytes(c->src_dtype), first, n;

    switch (c->kind) {
    case ZERO_ALL_GATHER:
    case ZERO_REDUCE_SCATTER:
        return c->count * size * others;
    case ZERO_BROADCAST:
        return rank == c->root ? c->count * size * others : 0;
    case ZERO_ALL_REDUCE:
        if (c->flags & ZERO_COLL_ACCUMULATE)
            return c->count * size * others;
        zero__coll_part(c->count, rank, ranks, &first, &n);
        return (c->count - n) * size + n * zero_dtype_bytes(c->dst_dtype) * others;
    default:
        return 0;
    }
}

uint64_t zero__coll_traffic(const struct zero_coll *c, int32_t ranks)
{
    uint64_t bytes;

    /* In place the smaller of the two is a part of the larger one. */
    if (c->flags & ZERO_COLL_INPLACE)
        bytes = c->src.len > c->dst.len ? c->src.len : c->dst.len;
    else if (__builtin_add_overflow(c->src.len, c->dst.len, &bytes))
        return UINT64_MAX;
    return __builtin_mul_overflow(bytes, (uint64_t)ranks, &bytes) ? UINT64_MAX : bytes;
}

unsigned zero__coll_streams(const struct zero_coll *c, int32_t ranks,
                            const struct zero__caches *caches)
{
    uint64_t bytes = zero__coll_traffic(c, ranks);
    bool sums = bytes > (c->kind == ZERO_REDUCE_SCATTER ? caches->sums : caches->all);

    sums &= !(c->flags & ZERO_COLL_INPLACE);
    return (sums ? ZERO__STREAM_SUMS : 0) | (bytes >= caches->copies ? ZERO__STREAM_COPIES : 0) |
           (bytes <= caches->all / 2 ? ZERO__COPIES_STAY : 0);
}
