/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation reads and writes, for the race detector: taken from its arguments. */
#include "device/host_race.h"

#include "device/kernels.h"

static void reads(struct race *r, uint32_t stream, const void *p, uint64_t bytes, const char *what)
{
    race_touch(r, stream, p, bytes, false, what);
}

static void writes(struct race *r, uint32_t stream, const void *p, uint64_t bytes, const char *what)
{
    race_touch(r, stream, p, bytes, true, what);
}

void race_copy(struct race *r, uint32_t stream, const void *dst, const void *src, uint64_t bytes)
{
    reads(r, stream, src, bytes, "copy: source");
    writes(r, stream, dst, bytes, "copy: destination");
}

static void fill(struct race *r, uint32_t stream, const struct zero_fill_args *a)
{
    uint64_t bytes = zero_dtype_bytes(a->dtype);

    for (uint32_t i = 0; i < a->n; i++)
        writes(r, stream, (const char *)a->dst + a->first[i] * bytes, a->count[i] * bytes,
               "fill: dst");
}

static void accumulate(struct race *r, uint32_t stream, const struct zero_accumulate_args *a)
{
    reads(r, stream, a->x, a->count * zero_dtype_bytes(a->x_dtype), "accumulate: x");
    writes(r, stream, a->acc, a->count * sizeof *a->acc, "accumulate: acc");
}

static void sumsq(struct race *r, uint32_t stream, const struct zero_sumsq_args *a)
{
    uint64_t blocks = a->count / ZERO_SUMSQ_BLOCK + (a->count % ZERO_SUMSQ_BLOCK != 0);

    reads(r, stream, a->x, a->count * zero_dtype_bytes(a->dtype), "sumsq: x");
    writes(r, stream, a->partial, blocks * sizeof *a->partial, "sumsq: partial");
}

static void cast(struct race *r, uint32_t stream, const struct zero_cast_args *a)
{
    reads(r, stream, a->x, a->count * zero_dtype_bytes(a->x_dtype), "cast: x");
    writes(r, stream, a->dst, a->count * zero_dtype_bytes(a->dst_dtype), "cast: dst");
}

static void sum(struct race *r, uint32_t stream, const struct zero_sum_args *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        reads(r, stream, a->src[i], a->count * zero_dtype_bytes(a->src_dtype), "sum: a source");
    if (a->partial)
        reads(r, stream, a->partial, a->count * sizeof *a->partial, "sum: partial");
    writes(r, stream, a->dst, a->count * zero_dtype_bytes(a->dst_dtype), "sum: dst");
}

/* The states of an update, in as many bytes as they are kept in. */
static void states(struct race *r, uint32_t stream, const struct zero_update_args *a, int n)
{
    uint64_t bytes = a->count * (a->state_dtype == ZERO_BF16 ? 2 : 4);

    if (a->p)
        writes(r, stream, a->p, a->count * sizeof *a->p, "update: p");
    else
        writes(r, stream, a->low, a->count * sizeof *a->low, "update: low");
    if (n > 0)
        writes(r, stream, a->m, bytes, "update: m");
    if (n > 1)
        writes(r, stream, a->v, bytes, "update: v");
}

static void update(struct race *r, uint32_t stream, const struct zero_update_args *a, int n)
{
    reads(r, stream, a->scalars, sizeof *a->scalars, "update: scalars");
    reads(r, stream, a->grad, a->count * zero_dtype_bytes(a->grad_dtype), "update: grad");
    states(r, stream, a, n);
    if (a->out)
        writes(r, stream, a->out, a->count * zero_dtype_bytes(a->out_dtype), "update: out");
}

void race_launch(struct race *r, uint32_t stream, uint32_t kernel, const void *args)
{
    const struct zero_scalars_args *s = args;
    const struct zero_total_args *t = args;
    const struct zero_update_args *u = args;

    switch (kernel) {
    case ZERO_KERNEL_FILL:
        fill(r, stream, args);
        break;
    case ZERO_KERNEL_ACCUMULATE:
        accumulate(r, stream, args);
        break;
    case ZERO_KERNEL_SUMSQ:
        sumsq(r, stream, args);
        break;
    case ZERO_KERNEL_TOTAL:
        reads(r, stream, t->x, t->count * sizeof *t->x, "total: x");
        writes(r, stream, t->total, sizeof *t->total, "total: total");
        break;
    case ZERO_KERNEL_SCALARS:
        reads(r, stream, s->sums, s->ranks * sizeof *s->sums, "scalars: sums");
        writes(r, stream, s->scalars, sizeof *s->scalars, "scalars: scalars");
        break;
    case ZERO_KERNEL_ADAMW:
        update(r, stream, u, 2);
        break;
    case ZERO_KERNEL_SGD:
        update(r, stream, u, u->hyper.momentum != 0);
        break;
    case ZERO_KERNEL_CAST:
        cast(r, stream, args);
        break;
    case ZERO_KERNEL_SUM:
        sum(r, stream, args);
        break;
    }
}
