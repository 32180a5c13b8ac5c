/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations, maps, and what goes over the wire. */
#include <string.h>
#include <unistd.h>

#include "rank.h"
#include "tools/common/values.h"

#define SLAB (UINT64_C(4) << 20)

/*
 * What the plugin counts is the payload in closed form, as comm.h has it for direct exchange, of
 * what is declared. A plugin that computes the same form instead of counting passes, too.
 */
void check_case_wire_bytes(struct check_rank *r)
{
    uint64_t n = 64 * 100, others = (uint64_t)r->ranks - 1, all = n * (uint64_t)r->ranks;
    const struct {
        uint32_t kind, dst_dtype;
        uint64_t count, bytes;
    } steps[] = {
        {ZERO_ALL_GATHER, ZERO_BF16, n, n * 2 * others},
        {ZERO_REDUCE_SCATTER, ZERO_BF16, n, n * 2 * others},
        {ZERO_ALL_REDUCE, ZERO_F32, all, n * 2 * others + n * 4 * others},
        {ZERO_BROADCAST, ZERO_BF16, all, r->rank == r->ranks - 1 ? all * 2 * others : 0},
    };
    uint64_t before = 0, after = 0, expected = 0;
    struct check_comm c;

    if (check_open(r, &c, SLAB)) {
        want(r, !c.ops->wire_bytes(c.world, &before), "wire_bytes: %s", check_error());
        want(r, before == 0, "wire_bytes starts at %" PRIu64 ", not 0", before);
        for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
            struct zero_coll q = {.kind = steps[i].kind,
                                  .src_dtype = ZERO_BF16,
                                  .dst_dtype = steps[i].dst_dtype,
                                  .scale = 1,
                                  .count = steps[i].count};
            q.root = q.kind == ZERO_BROADCAST ? r->ranks - 1 : 0;
            if (!check_can(r, &q))
                continue;
            check_either(&c, c.world, r->rank, r->ranks, q, i + 1);
            expected += steps[i].bytes;
        }
        /* Before the ranks meet, which may move data. */
        want(r, !c.ops->wire_bytes(c.world, &after), "wire_bytes: %s", check_error());
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
        if (!(r->caps.flags & ZERO_COMM_ORDERED) && after > 0) /* may send otherwise, not nothing */
            expected = after;
        want(r, after == expected, "wire bytes %" PRIu64 ", want %" PRIu64, after, expected);
    }
    check_close(&c);
}

/* Into the second half, from wherever q has its source. */
static void gather(struct check_comm *c, const struct zero_coll *q, const char *from)
{
    int64_t res = check_run(c, c->world, q), due = (int64_t)q->dst.len;

    want(c->r, res == due, "all_gather from %s: %s, want %" PRId64, from, c->r->ended, due);
}

/* A region may be a part of what alloc() gave; it ends, and others go on. */
static void use_part(struct check_comm *c, uint64_t round)
{
    struct zero_coll q = check_gather(c, 64);
    struct check_rank *r = c->r;
    struct zero_mr *part;
    int err;

    if (!want(r, !c->ops->reg(c->ctx, c->memory + 4096, 8192, check_memory_kind(r), &part),
              "reg: %s", check_error()))
        return;
    q.src = (struct zero_slice){part, 0, 256};
    err = c->ops->post(c->world, &q, 1, NULL);
    want(r, err == -EINVAL, "post before the exchange gives %s, want -EINVAL",
         check_value(r, err));
    check_mark(r->host);
    want(r, !c->ops->exchange(c->ctx, part), "exchange: %s", check_error());
    err = c->ops->exchange(c->ctx, part);
    want(r, err == -EINVAL, "a second exchange gives %s, want -EINVAL", check_value(r, err));
    for (uint64_t i = 0; i < 64; i++)
        ((float *)(void *)(c->memory + 4096))[i] = (float)(r->rank + 1) + (float)round;
    gather(c, &q, "a part of memory");
    for (int p = 0; p < r->ranks; p++) {
        float got = ((float *)(void *)(c->memory + c->bytes / 2))[64 * p];
        float due = (float)(p + 1) + (float)round;
        want(r, got == due, "all_gather from a part of memory: of rank %d comes %g, want %g", p,
             (double)got, (double)due);
    }
    want(r, check_meet(c, c->world) == 0, "meeting: %s", r->ended);
    want(r, !c->ops->unreg(c->ctx, part), "unreg: %s", check_error());
}

void check_case_memory(struct check_rank *r)
{
    struct zero_coll q;
    struct zero_mr *mr;
    struct check_comm c;
    char *base;

    if (check_open(r, &c, SLAB)) {
        for (uint64_t round = 0; round < 20 && !r->n_bad; round++)
            use_part(&c, round);
        if (want(r, !check_alloc(&c, 1 << 20, &base, &mr), "a second slab: %s", check_error())) {
            for (uint64_t i = 0; i < 1 << 20 && c.ops->alloc; i++)
                if (!want(r, base[i] == 0, "what alloc() gives is not zeroed"))
                    break;
            want(r, (uintptr_t)base % (uintptr_t)sysconf(_SC_PAGESIZE) == 0,
                 "what alloc() gives is not aligned to a page");
            want(r, !c.ops->exchange(c.ctx, mr), "exchange: %s", check_error());
            q = check_gather(&c, 100);
            q.src = (struct zero_slice){mr, 4, 400};
            gather(&c, &q, "a second slab");
            want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
            check_free(&c, 1 << 20, base, mr);
        }
        q = check_gather(&c, 64);
        gather(&c, &q, "the first slab, after all that");
    }
    check_close(&c);
}

/* Every rank's part is filled with its number, from 1 on. */
static void mapped(struct check_rank *r, const void *map, uint64_t at, int rank)
{
    int got = ((const unsigned char *)map)[at];

    want(r, got == rank + 1, "byte %" PRIu64 " of a map is %d, want %d, of rank %d", at, got,
         rank + 1, rank);
}

/* Peers' pages side by side, as often as one likes. */
void check_case_map(struct check_rank *r)
{
    uint64_t page = 65536;
    struct check_comm c;
    void *base, *again;
    int err;

    if (!check_open(r, &c, SLAB) || !want(r, c.ops->map, "there is no map()")) {
        check_close(&c);
        return;
    }
    memset(c.memory + page, r->rank + 1, page);
    if (want(r, !c.ops->map(c.ctx, c.mr, page, page, &base), "map: %s", check_error())) {
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
        for (int p = 0; p < r->ranks; p++)
            for (uint64_t i = 0; i < page; i += 777)
                mapped(r, base, (uint64_t)p * page + i, p);
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
        want(r, !c.ops->map(c.ctx, c.mr, page + page / 2, page, &again), "a second map: %s",
             check_error());
        for (int p = 0; p < r->ranks && !r->n_bad; p++)
            mapped(r, again, (uint64_t)p * page, p);
        mapped(r, base, 0, 0); /* it is still there */
    }
    err = c.ops->map(c.ctx, c.mr, 1, page, &base);
    want(r, err == -EINVAL, "map at byte 1 gives %s, want -EINVAL", check_value(r, err));
    check_close(&c);
}
