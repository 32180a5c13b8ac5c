/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating sums. NCCL adds bf16 and fp16 in their own type, rounding each time; so they are widened
 * first, a piece at a time, and what comes out in another type, or is added to what is there, goes
 * through a second buffer. The factor is applied to each addend.
 *
 *     source --cast--> [first buffer] --NCCL, fp32--> [second buffer] --cast, add--> destination
 *
 * A buffer is left out where the type is fp32 already.
 */
#include <stdio.h>
#include <string.h>

#include "nccl.h"

#define WIDENED 32u /* blocks at once: a step launches few kernels, see nccl_room() */

bool nccl_sum_is_staged(const struct zero_coll *c)
{
    return zero__coll_reduces(c->kind) && c->count &&
           (c->src_dtype == ZERO_BF16 || c->src_dtype == ZERO_F16 || c->dst_dtype != c->src_dtype ||
            c->flags & ZERO_COLL_ACCUMULATE);
}

/* ---- Operations with a factor ---------------------------------------------------------------- */

static int redop(struct zero_comm *comm, int type, float scale, int *op)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_factor *f = comm->factors;
    double wide = scale;
    int r = NCCL_OK;

    *op = NCCL_SUM;
    if (scale == 1)
        return NCCL_OK;
    for (uint32_t i = 0; i < NCCL_FACTORS; i++)
        if (f[i].made && f[i].type == type && f[i].scale == scale) {
            *op = f[i].op;
            return NCCL_OK;
        }
    f += comm->next_factor++ % NCCL_FACTORS;
    if (f->made)
        r = ctx->nccl.RedOpDestroy(f->op, comm->nccl);
    f->made = false;
    if (r == NCCL_OK)
        r = ctx->nccl.RedOpCreatePreMulSum(&f->op, type == NCCL_F64 ? (void *)&wide : &scale, type,
                                           NCCL_HOST_SCALAR, comm->nccl);
    if (r != NCCL_OK)
        return r;
    *f = (struct nccl_factor){.made = true, .scale = scale, .type = type, .op = f->op};
    *op = f->op;
    return NCCL_OK;
}

/*
 * Elements that NCCL can be given at once. Of a sum with a factor on one rank, versions before
 * 2.29.7 leave out what does not divide among their blocks, one for each 16 KiB and at most 32
 * (https://github.com/NVIDIA/nccl/issues/1950): first as many whole shares of 32 as there are, then
 * pieces of one block.
 */
static uint64_t sound(const struct zero_comm *comm, float scale, uint64_t n, uint64_t size)
{
    const uint64_t block = 16384 / size, shares = 32 * 16 / size;

    if (comm->ranks > 1 || scale == 1 || comm->ctx->nccl.version >= NCCL_WHOLE_ALONE || n <= block)
        return n;
    return n >= 32 * block ? n / shares * shares : block;
}

int nccl_sum(struct zero_comm *comm, const struct zero_coll *c, int type, const char *src,
             char *dst, uint64_t n, void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    const uint64_t size = type == NCCL_F64 || type == NCCL_I64 ? 8 : type == NCCL_U8 ? 1 : 4;
    int op, r = redop(comm, type, c->scale, &op);

    if (r != NCCL_OK)
        return r;
    /* What is in progress has been taken: the group's end waits for it. */
    for (uint64_t done = 0, k; done < n && (r == NCCL_OK || r == NCCL_IN_PROGRESS); done += k) {
        const char *from = src + done * size;
        char *to = dst + done * size;
        k = sound(comm, c->scale, n - done, size);
        comm->launched++;
        r = c->kind == ZERO_ALL_REDUCE
                ? ctx->nccl.AllReduce(from, to, k, type, op, comm->nccl, stream)
                : ctx->nccl.ReduceScatter(from, to, k, type, op, comm->nccl, stream);
    }
    return r;
}

void nccl_redops_end(struct zero_comm *comm)
{
    for (uint32_t i = 0; i < NCCL_FACTORS; i++)
        if (comm->factors[i].made && comm->nccl && !comm->launching && !atomic_load(&comm->err))
            comm->ctx->nccl.RedOpDestroy(comm->factors[i].op, comm->nccl);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Blocks of the source, one for each rank; an all_reduce has one. */
static uint64_t blocks(const struct zero_comm *comm, const struct zero_coll *c)
{
    return c->kind == ZERO_REDUCE_SCATTER ? (uint64_t)comm->ranks : 1;
}

/* Pieces of a reduce_scatter's source do not lie side by side. */
static bool is_widened(const struct zero_comm *comm, const struct zero_coll *c)
{
    return c->src_dtype != ZERO_F32 ||
           (blocks(comm, c) > 1 && c->count * 4 > comm->ctx->staging_bytes);
}

static bool is_narrowed(const struct zero_coll *c)
{
    return c->dst_dtype != ZERO_F32 || c->flags & ZERO_COLL_ACCUMULATE;
}

/* Elements of each block that go through the buffers at once. */
static uint64_t piece(const struct zero_comm *comm, const struct zero_coll *c)
{
    uint64_t room = comm->ctx->staging_bytes / 4, most = c->count;

    if (is_narrowed(c) && most > room)
        most = room;
    if (is_widened(comm, c) && most > room / blocks(comm, c))
        most = room / blocks(comm, c);
    return most;
}

int nccl_staging_make(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    void *base = NULL;
    int err = ctx->ops->event_create(ctx->dev, &comm->staged);

    if (err)
        return err;
    err = ctx->ops->alloc(ctx->dev, 2 * ctx->staging_bytes, NCCL_MEMORY, &base);
    if (!err) {
        comm->staging = base;
        return 0;
    }
    snprintf(ctx->said, sizeof ctx->said,
             "split: the device does not give two buffers of %llu bytes, through which sums of "
             "bf16 and fp16 go (%s): a smaller ZERO_NCCL_STAGING on all ranks takes less",
             (unsigned long long)ctx->staging_bytes, strerror(-err));
    return zero__say(&ctx->voice, err, "%s", ctx->said);
}

static int launch(struct zero_comm *comm, uint32_t kernel, const void *args, uint64_t bytes)
{
    const struct zero_launch l = {kernel, 0, args, bytes};

    comm->launched++;
    return comm->ctx->ops->launch(comm->ctx->dev, &l, comm->work.stream);
}

static int cast(struct zero_comm *comm, void *dst, uint32_t dst_dtype, const void *x,
                uint32_t x_dtype, uint64_t n)
{
    const struct zero_cast_args args = {dst, x, n, dst_dtype, x_dtype};
    return launch(comm, ZERO_KERNEL_CAST, &args, sizeof args);
}

/* One more part of the piece: 1 when all blocks of it are in the buffer. */
static int widen(struct zero_comm *comm, const struct zero_coll *c, uint64_t first, uint64_t n)
{
    const uint32_t size = zero_dtype_bytes(c->src_dtype);
    const bool whole = n == c->count; /* blocks lie side by side, there and here */
    const uint64_t all = whole ? 1 : blocks(comm, c), most = comm->work.widened + WIDENED;
    uint64_t *b = &comm->work.widened;
    int err = 0;

    for (; *b < all && *b < most && !err; ++*b)
        err = cast(comm, comm->staging + *b * n * 4, ZERO_F32,
                   nccl_at(&c->src) + (*b * c->count + first) * size, c->src_dtype,
                   whole ? n * blocks(comm, c) : n);
    return err ? err : *b == all;
}

static int add(struct zero_comm *comm, const struct zero_coll *c, uint64_t first, uint64_t n)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    const char *src = is_widened(comm, c) ? comm->staging : nccl_at(&c->src) + first * 4;
    char *dst = is_narrowed(c) ? comm->staging + ctx->staging_bytes : nccl_at(&c->dst) + first * 4;
    int r = ctx->nccl.GroupStart(), end;

    if (r != NCCL_OK)
        return nccl_called(comm, r, zero_coll_name(c->kind));
    r = nccl_sum(comm, c, NCCL_F32, src, dst, n, comm->work.stream);
    end = ctx->nccl.GroupEnd(); /* always: the group is the thread's */
    return nccl_called(comm, r == NCCL_OK ? end : r, zero_coll_name(c->kind));
}

static int narrow(struct zero_comm *comm, const struct zero_coll *c, uint64_t first, uint64_t n)
{
    const char *sum = comm->staging + comm->ctx->staging_bytes;
    char *dst = nccl_at(&c->dst) + first * zero_dtype_bytes(c->dst_dtype);
    const struct zero_accumulate_args more = {(float *)(void *)dst, sum, n, ZERO_F32, 1};

    if (!is_narrowed(c))
        return 0;
    if (c->flags & ZERO_COLL_ACCUMULATE)
        return launch(comm, ZERO_KERNEL_ACCUMULATE, &more, sizeof more);
    return cast(comm, dst, c->dst_dtype, sum, ZERO_F32, n);
}

/* Whoever used the buffers before, in another stream, is through with them. */
static int buffers_take(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    if (!comm->staged_in || comm->staged_in == comm->work.stream)
        return 0;
    return ctx->ops->stream_wait(ctx->dev, comm->work.stream, comm->staged);
}

int nccl_sum_step(struct zero_comm *comm, const struct zero_coll *c)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_work *w = &comm->work;
    uint64_t most = piece(comm, c), left = c->count - w->through, n = left < most ? left : most;
    int err;

    if (!w->added) {
        err = w->through || w->widened ? 0 : buffers_take(comm);
        if (!err && is_widened(comm, c)) {
            err = widen(comm, c, w->through, n);
            if (err != 1) /* not all of it, or an error */
                return err;
            err = 0;
        }
        if (!err)
            err = add(comm, c, w->through, n);
        w->added = !err;
        w->widened = 0;
        return err;
    }
    err = narrow(comm, c, w->through, n);
    if (err)
        return err;
    w->added = false;
    w->through += n;
    if (w->through < c->count)
        return 0;
    w->through = 0;
    comm->staged_in = w->stream;
    comm->launched++;
    err = ctx->ops->event_record(ctx->dev, comm->staged, w->stream);
    return err ? err : 1;
}
