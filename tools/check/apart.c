/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that go apart: an error that names both sides, never wrong numbers, never a hang. */
#include <stdio.h>
#include <string.h>

#include "check.h"

#define SLAB (UINT64_C(1) << 20)

enum difference {
    KIND,
    COUNT,
    TYPE,
    REDOP,
    FLAGS,
    SCALE,
    GROUP,
    EPOCH,
    SEQUENCE,
    ROOT,
    N_DIFFERENT
};

/* What the ranks but the last must read of what they posted: a value of theirs. */
static const char *const said[N_DIFFERENT] = {"all_reduce", "64",  "fp32", "reduction", "flags",
                                              "0.5",        " 3 ", " 4 ",  " 5 ",       "root"};

/* What this rank posts; the last rank differs. */
static struct zero_coll different(struct check_comm *c, enum difference what, bool other)
{
    struct zero_coll q = check_reduce(c, 64);

    if (what == ROOT) {
        q = (struct zero_coll){.kind = ZERO_BROADCAST,
                               .src_dtype = ZERO_F32,
                               .dst_dtype = ZERO_F32,
                               .scale = 1,
                               .count = 64};
        q.root = other ? 1 : 0;
        if (c->r->rank == q.root)
            q.src = check_slice(c, 0, 256);
        else
            q.dst = check_slice(c, SLAB / 2, 256);
        return q;
    }
    if (!other)
        return q;
    if (what == KIND)
        return check_gather(c, 64);
    if (what == COUNT)
        q = check_reduce(c, 65);
    if (what == TYPE)
        q.src_dtype = ZERO_BF16, q.src.len /= 2;
    if (what == REDOP)
        q.redop = ZERO_MAX, q.scale = 1;
    if (what == FLAGS)
        q.flags = ZERO_COLL_INPLACE, q.src = q.dst;
    if (what == SCALE)
        q.scale = 0.25f;
    q.group += what == GROUP;
    q.epoch += what == EPOCH;
    q.sequence += what == SEQUENCE;
    return q;
}

void check_case_mismatch(struct check_rank *r)
{
    struct check_comm c;
    char name[32];

    snprintf(name, sizeof name, "rank %d", r->ranks - 1);
    for (enum difference what = check_open(r, &c, SLAB) ? 0 : N_DIFFERENT; what < N_DIFFERENT;
         what++) {
        struct zero_coll q = different(&c, what, r->rank == r->ranks - 1);
        struct zero_comm *comm;
        if (!want(r, !c.ops->split(c.ctx, NULL, 0, 0, &comm), "split: %s", check_error()))
            break;
        int64_t res = check_run(&c, comm, &q);
        want(r, res == -EPROTO, "difference %d: result %" PRId64, (int)what, res);
        want(r, c.ops->error(comm) == -EPROTO, "difference %d: not sticky", (int)what);
        want(r, strstr(check_error(), name), "difference %d: \"%s\" lacks \"%s\"", (int)what,
             check_error(), name);
        want(r, strstr(check_error(), said[what]), "difference %d: \"%s\" lacks \"%s\"", (int)what,
             check_error(), said[what]);
        want(r, c.ops->post(comm, &q, 1, NULL) == -EPROTO, "difference %d: a post after it",
             (int)what);
        want(r, check_barrier(&c, c.world) == 0, "another communicator: %s", check_error());
        want(r, !c.ops->comm_close(comm), "close");
    }
    check_close(&c);
}

/* Outside of collectives. */
void check_case_calls_apart(struct check_rank *r)
{
    struct zero_comm *comm;
    struct check_comm c;
    struct zero_mr *mr;
    char *base;
    int err;

    if (check_open(r, &c, SLAB) &&
        want(r, !check_alloc(&c, 65536, &base, &mr), "alloc: %s", check_error())) {
        err = r->rank ? c.ops->split(c.ctx, NULL, 0, 0, &comm) : c.ops->exchange(c.ctx, mr);
        want(r, err == -EPROTO, "result %d", err);
        want(r, strstr(check_error(), "exchange") && strstr(check_error(), "split"),
             "both calls are not named: %s", check_error());
        check_free(&c, 65536, base, mr);
    }
    check_close(&c);
}
