/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other collectives than those that were asked for, as a program that has gone astray would post
 * them: legal on this rank, within the same memory, and different from what the others post.
 */
#include "fault.h"

/* For INPLACE, where the shorter side lies within the longer one: its number; false: nobody knows.
 */
static bool part_number(const struct zero_slice *part, const struct zero_slice *whole, uint64_t *k)
{
    if (part->mr != whole->mr || part->off < whole->off || part->len == 0)
        return false;
    *k = (part->off - whole->off) / part->len;
    return true;
}

static bool resize_sharded(struct zero_slice *part, uint64_t part_bytes, struct zero_slice *whole,
                           uint64_t bytes, bool in_place)
{
    uint64_t n, k = 0;

    if (part->len < part_bytes || (in_place && !part_number(part, whole, &k)))
        return false; /* the plugin below will say what is wrong with it */
    n = whole->len / (part->len / part_bytes * bytes);
    whole->len -= n * bytes;
    part->len -= part_bytes;
    if (in_place)
        part->off = whole->off + k * part->len;
    return true;
}

bool zero__fault_resize(struct zero_coll *c)
{
    uint64_t s = zero_dtype_bytes(c->src_dtype), d = zero_dtype_bytes(c->dst_dtype);
    bool in_place = c->flags & ZERO_COLL_INPLACE;

    if (c->kind >= ZERO_BARRIER || c->count == 0 || !s || !d)
        return false;
    if (c->kind == ZERO_ALL_GATHER) {
        if (!resize_sharded(&c->src, s, &c->dst, d, in_place))
            return false;
    } else if (c->kind == ZERO_REDUCE_SCATTER) {
        if (!resize_sharded(&c->dst, d, &c->src, s, in_place))
            return false;
    } else {
        c->src.len -= c->src.len ? s : 0;
        c->dst.len -= c->dst.len ? d : 0;
    }
    c->count--;
    return true;
}

/* A type of the same size; 0: there is none. */
static uint32_t sibling(uint32_t dtype)
{
    switch (dtype) {
    case ZERO_F32:
        return ZERO_I32;
    case ZERO_I32:
        return ZERO_F32;
    case ZERO_BF16:
        return ZERO_F16;
    case ZERO_F16:
        return ZERO_BF16;
    case ZERO_I64:
        return ZERO_F64;
    case ZERO_F64:
        return ZERO_I64;
    default:
        return 0;
    }
}

bool zero__fault_retype(struct zero_coll *c)
{
    uint32_t other = sibling(c->src_dtype);

    if (c->kind >= ZERO_BARRIER || !other)
        return false;
    if (c->src_dtype == c->dst_dtype && !(c->flags & ZERO_COLL_ACCUMULATE)) {
        c->src_dtype = c->dst_dtype = other;
        if (other == ZERO_I32 || other == ZERO_I64)
            c->scale = 1; /* integers are not scaled */
        return true;
    }
    if (c->src_dtype == ZERO_F32) { /* a sum to another type stays one of floats */
        c->src_dtype = ZERO_BF16;
        c->src.len /= 2;
    } else {
        c->src_dtype = other;
    }
    return true;
}
