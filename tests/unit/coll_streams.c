/* SPDX-License-Identifier: Apache-2.0 */
/* What a collective touches, and from where on its results go past the caches. */
#include "plugins/common/coll.h"

#include "tests/tap.h"

#define MIB (UINT64_C(1) << 20)

/* A collective of two ranks in fp32; `bytes`: of the full message. */
static struct zero_coll coll(uint32_t kind, uint32_t flags, uint64_t bytes)
{
    struct zero_coll c = {.kind = kind, .flags = flags, .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32, .scale = 1};

    c.src.len = kind == ZERO_ALL_GATHER ? bytes / 2 : bytes;
    c.dst.len = kind == ZERO_REDUCE_SCATTER ? bytes / 2 : bytes;
    c.count = kind == ZERO_ALL_REDUCE ? bytes / 4 : bytes / 8;
    return c;
}

static uint64_t traffic(uint32_t kind, uint32_t flags, uint64_t bytes)
{
    struct zero_coll c = coll(kind, flags, bytes);
    return zero__coll_traffic(&c, 2);
}

static unsigned streams(uint32_t kind, uint32_t flags, uint64_t bytes)
{
    const struct zero__caches caches = {.all = 32 * MIB, .copies = 40 * MIB, .sums = 4 * MIB};
    struct zero_coll c = coll(kind, flags, bytes);

    return zero__coll_streams(&c, 2, &caches);
}

int main(void)
{
    const unsigned both = ZERO__STREAM_SUMS | ZERO__STREAM_COPIES;
    struct zero_coll most = coll(ZERO_ALL_REDUCE, 0, UINT64_MAX - 3);

    ok(traffic(ZERO_ALL_GATHER, 0, 16 * MIB) == 48 * MIB &&
           traffic(ZERO_REDUCE_SCATTER, 0, 16 * MIB) == 48 * MIB &&
           traffic(ZERO_ALL_REDUCE, 0, 16 * MIB) == 64 * MIB,
       "out of place every rank touches its source and its destination");
    ok(traffic(ZERO_ALL_GATHER, ZERO_COLL_INPLACE, 16 * MIB) == 32 * MIB &&
           traffic(ZERO_REDUCE_SCATTER, ZERO_COLL_INPLACE, 16 * MIB) == 32 * MIB &&
           traffic(ZERO_ALL_REDUCE, ZERO_COLL_INPLACE, 16 * MIB) == 32 * MIB,
       "in place the larger one, of which the other is a part");
    ok(streams(ZERO_ALL_GATHER, 0, 16 * MIB) == both &&
           streams(ZERO_ALL_REDUCE, 0, 16 * MIB) == both,
       "what does not fit into the caches goes past them");
    ok(!streams(ZERO_ALL_GATHER, ZERO_COLL_INPLACE, 19 * MIB) &&
           !streams(ZERO_ALL_REDUCE, ZERO_COLL_INPLACE, 19 * MIB) &&
           streams(ZERO_ALL_GATHER, ZERO_COLL_INPLACE, 20 * MIB),
       "in place less than they stand for does, and that does not");
    ok(streams(ZERO_ALL_GATHER, ZERO_COLL_INPLACE, 8 * MIB) == ZERO__COPIES_STAY &&
           !streams(ZERO_ALL_GATHER, ZERO_COLL_INPLACE, 9 * MIB),
       "what fills half of them stays there");
    ok(!(streams(ZERO_REDUCE_SCATTER, 0, MIB) & ZERO__STREAM_SUMS) &&
           (streams(ZERO_REDUCE_SCATTER, 0, 2 * MIB) & both) == ZERO__STREAM_SUMS,
       "sums of a reduce_scatter do from the cores' own caches on");
    ok(!(streams(ZERO_REDUCE_SCATTER, ZERO_COLL_INPLACE, 1024 * MIB) & ZERO__STREAM_SUMS) &&
           streams(ZERO_ALL_REDUCE, ZERO_COLL_INPLACE, 1024 * MIB) == ZERO__STREAM_COPIES,
       "but not in place, where they go to lines that have just been read");
    ok(zero__coll_traffic(&most, 2) == UINT64_MAX, "sizes beyond 64 bits count as the most");
    done();
}
