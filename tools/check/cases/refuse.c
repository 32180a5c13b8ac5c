/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and memory that must be refused, with a reason, and without harm to what follows. */
#include "rank.h"

#define SLAB (UINT64_C(1) << 20)

/* An error has a sentence of its own; whether it is a good one people judge. */
static void reasoned(struct check_comm *c, int err, const char *what)
{
    want(c->r, err >= 0 || check_said(), "%s: no reason is given (zero_host.fail())", what);
}

static void refuse(struct check_comm *c, struct zero_coll q, int err, const char *what)
{
    check_mark(c->r->host);
    int got = c->ops->post(c->world, &q, 1, NULL);
    want(c->r, got == err, "%s: post gives %s, want %s", what, check_value(c->r, got),
         check_value(c->r, err));
    reasoned(c, got, what);
}

static void refuse_sums(struct check_comm *c)
{
    const struct zero_comm_caps *caps = &c->r->caps;
    struct zero_coll q, good = check_some_sum(c, 64);

    if (good.kind == ZERO_BARRIER)
        return;
    q = good, q.redop = 9, refuse(c, q, -ENOTSUP, "unknown reduction");
    /* What is not declared besides may be refused for that. */
    q = good, q.redop = ZERO_MAX;
    if (caps->redops & 1u << ZERO_MAX)
        refuse(c, q, -EINVAL, "scaled maximum");
    q = good, q.src_dtype = ZERO_I32;
    if (caps->dtypes & 1u << ZERO_I32)
        refuse(c, q, -EINVAL, "int to float");
    q = good, q.flags = ZERO_COLL_ACCUMULATE, q.dst_dtype = ZERO_BF16, q.dst.len /= 2;
    if ((caps->flags & ZERO_COMM_ACCUMULATE) && (caps->dtypes & 1u << ZERO_BF16))
        refuse(c, q, -EINVAL, "accumulating bf16");
}

static void refuse_fields(struct check_comm *c)
{
    struct zero_coll q, good = check_some(c, 64);

    q = good, q.kind = 77, refuse(c, q, -ENOTSUP, "unknown kind");
    q = good, q.flags = 1u << 9, refuse(c, q, -ENOTSUP, "unknown flag");
    q = good, q.reserved[1] = 1, refuse(c, q, -EINVAL, "reserved field");
    q = good, q.src_dtype = 99, refuse(c, q, -EINVAL, "unknown type");
    q = check_gather(c, 8), q.src_dtype = ZERO_I32;
    refuse(c, q, -EINVAL, "a gathering that converts");
    q = good, q.root = 1, refuse(c, q, -EINVAL, "root without broadcast");
    q = good, q.flags = ZERO_COLL_INPLACE, refuse(c, q, -EINVAL, "in place, but elsewhere");
    q = check_gather(c, 8), q.scale = 2, refuse(c, q, -EINVAL, "scaled gather");
    q = (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1, .count = 1};
    if (c->r->caps.kinds & 1u << ZERO_BARRIER)
        refuse(c, q, -EINVAL, "barrier with data");
}

static void refuse_slices(struct check_comm *c)
{
    struct zero_coll q, good = check_some(c, 64);

    q = good, q.src.len--, refuse(c, q, -EINVAL, "short source");
    q = good, q.dst.len++, refuse(c, q, -EINVAL, "long destination");
    q = good, q.dst.off = q.src.off, refuse(c, q, -EINVAL, "overlap");
    q = good, q.src.off = 2, refuse(c, q, -EINVAL, "half an element");
    q = good, q.src.off = SLAB, refuse(c, q, -ERANGE, "behind the region");
    q = good, q.src.off = UINT64_MAX - 3, refuse(c, q, -ERANGE, "an offset that wraps");
    q = good, q.count = UINT64_MAX / 2, refuse(c, q, -EOVERFLOW, "a count that wraps");
    q = good, q.src.mr = NULL, refuse(c, q, -EINVAL, "no memory");
}

/* One that is wrong keeps the good one before it from being posted. */
static void refuse_batch(struct check_comm *c)
{
    struct zero_coll q[2] = {check_some(c, 64), check_some(c, 64)};
    struct check_rank *r = c->r;
    struct zero_cqe cqe;
    int n;

    if (r->caps.max_inflight < 2)
        return;
    q[0].user = 1;
    q[1].user = 2;
    q[1].src.len--;
    check_mark(r->host);
    n = c->ops->post(c->world, q, 2, NULL);
    want(r, n == -EINVAL, "a batch of a good one and a short source: post gives %s, want -EINVAL",
         check_value(r, n));
    reasoned(c, n, "a batch of a good one and a short source");
    n = c->ops->progress(c->ctx, &cqe, 1, 100000000); /* where ranks are late the next one tells */
    want(r, n == 0,
         "a batch of a good one and a wrong one is refused: progress gives %s, want 0, nothing of "
         "it is posted",
         check_value(r, n));
}

void check_case_refusals(struct check_rank *r)
{
    struct check_comm c;
    struct zero_coll q;
    struct zero_mr *mr;
    void *base;
    int err;

    if (check_open(r, &c, SLAB)) {
        refuse_fields(&c);
        refuse_sums(&c);
        refuse_slices(&c);
        refuse_batch(&c);
        check_mark(r->host);
        err = c.ops->exchange(c.ctx, c.mr);
        want(r, err == -EINVAL, "a second exchange gives %s, want -EINVAL", check_value(r, err));
        reasoned(&c, err, "a second exchange");
        if (c.ops->alloc) {
            check_mark(r->host);
            err = c.ops->alloc(c.ctx, UINT64_C(1) << 60, ZERO_MEM_HOST, &base, &mr);
            want(r, err == -ENOMEM, "alloc of an exbibyte gives %s, want -ENOMEM",
                 check_value(r, err));
            reasoned(&c, err, "alloc of an exbibyte");
        }
        if (c.ops->alloc && !(r->caps.mem & ZERO_MEM_CUDA)) {
            err = c.ops->alloc(c.ctx, 4096, ZERO_MEM_CUDA, &base, &mr);
            want(r, err == -ENOTSUP, "alloc of a GPU's memory gives %s, want -ENOTSUP",
                 check_value(r, err));
        }
        if (!(r->caps.mem & ZERO_MEM_CUDA)) {
            err = c.ops->reg(c.ctx, c.memory, 4096, ZERO_MEM_CUDA, &mr);
            want(r, err == -ENOTSUP, "reg of a GPU's memory gives %s, want -ENOTSUP",
                 check_value(r, err));
        }
        q = check_some(&c, 64);
        int64_t res = check_run(&c, c.world, &q);
        want(r, res == (int64_t)q.dst.len,
             "after all this: %s: %s, want %" PRIu64, zero_coll_name(q.kind), r->ended, q.dst.len);
    }
    check_close(&c);
}
