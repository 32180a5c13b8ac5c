/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations, maps, and what goes over the wire. */
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "values.h"

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
    uint64_t before, after = 0, expected = 0;
    struct check_comm c;

    if (check_open(r, &c, SLAB)) {
        want(r, !c.ops->wire_bytes(c.world, &before) && before == 0, "starts at 0");
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
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", check_error());
        if (!(r->caps.flags & ZERO_COMM_ORDERED) && after > 0) /* may send otherwise, not nothing */
            expected = after;
        want(r, after == expected, "wire bytes %" PRIu64 ", want %" PRIu64, after, expected);
    }
    check_close(&c);
}

/* A region may be a part of what alloc() gave; it ends, and others go on. */
static void use_part(struct check_comm *c, uint64_t round)
{
    struct zero_coll q = check_gather(c, 64);
    struct check_rank *r = c->r;
    struct zero_mr *part;

    if (!want(r, !c->ops->reg(c->ctx, c->memory + 4096, 8192, check_memory_kind(r), &part),
              "reg: %s", check_error()))
        return;
    q.src = (struct zero_slice){part, 0, 256};
    want(r, c->ops->post(c->world, &q, 1, NULL) == -EINVAL, "posted before the exchange");
    want(r, !c->ops->exchange(c->ctx, part), "exchange: %s", check_error());
    want(r, c->ops->exchange(c->ctx, part) == -EINVAL, "exchanged twice");
    for (uint64_t i = 0; i < 64; i++)
        ((float *)(void *)(c->memory + 4096))[i] = (float)(r->rank + 1) + (float)round;
    want(r, check_run(c, c->world, &q) == 256 * r->ranks, "a part of memory: %s", check_error());
    for (int p = 0; p < r->ranks; p++)
        want(r,
             ((float *)(void *)(c->memory + c->bytes / 2))[64 * p] ==
                 (float)(p + 1) + (float)round,
             "rank %d's part of memory", p);
    want(r, check_meet(c, c->world) == 0, "meeting: %s", check_error());
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
            want(r, check_run(&c, c.world, &q) == 400 * r->ranks, "from one slab to another: %s",
                 check_error());
            want(r, check_meet(&c, c.world) == 0, "meeting: %s", check_error());
            check_free(&c, 1 << 20, base, mr);
        }
        q = check_gather(&c, 64);
        want(r, check_run(&c, c.world, &q) == 256 * r->ranks, "after all that: %s", check_error());
    }
    check_close(&c);
}

/* Peers' pages side by side, as often as one likes. */
void check_case_map(struct check_rank *r)
{
    uint64_t page = 65536;
    struct check_comm c;
    void *base, *again;

    if (!check_open(r, &c, SLAB)) {
        check_close(&c);
        return;
    }
    memset(c.memory + page, r->rank + 1, page);
    if (want(r, !c.ops->map(c.ctx, c.mr, page, page, &base), "map: %s", check_error())) {
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", check_error());
        for (int p = 0; p < r->ranks; p++)
            for (uint64_t i = 0; i < page; i += 777)
                want(r, ((char *)base)[(uint64_t)p * page + i] == p + 1, "rank %d's part", p);
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", check_error());
        want(r, !c.ops->map(c.ctx, c.mr, page + page / 2, page, &again), "a second map: %s",
             check_error());
        for (int p = 0; p < r->ranks && !r->n_bad; p++)
            want(r, ((char *)again)[(uint64_t)p * page] == p + 1, "rank %d's second half", p);
        want(r, ((char *)base)[0] == 1, "the first map is still there");
    }
    want(r, c.ops->map(c.ctx, c.mr, 1, page, &base) == -EINVAL, "half pages are not refused");
    check_close(&c);
}
