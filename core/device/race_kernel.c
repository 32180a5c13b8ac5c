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

static void adamw(struct race *r, uint32_t stream, const struct zero_update_args *a)
{
    uint64_t bytes = a->count * sizeof *a->p;

    reads(r, stream, a->scalars, sizeof *a->scalars, "adamw: scalars");
    reads(r, stream, a->grad, a->count * zero_dtype_bytes(a->grad_dtype), "adamw: grad");
    writes(r, stream, a->p, bytes, "adamw: p");
    writes(r, stream, a->m, bytes, "adamw: m");
    writes(r, stream, a->v, bytes, "adamw: v");
    if (a->out)
        writes(r, stream, a->out, a->count * zero_dtype_bytes(a->out_dtype), "adamw: out");
}

static void sgd(struct race *r, uint32_t stream, const struct zero_update_args *a)
{
    uint64_t bytes = a->count * sizeof *a->p;

    reads(r, stream, a->scalars, sizeof *a->scalars, "sgd: scalars");
    reads(r, stream, a->grad, a->count * zero_dtype_bytes(a->grad_dtype), "sgd: grad");
    writes(r, stream, a->p, bytes, "sgd: p");
    if (a->hyper.momentum != 0)
        writes(r, stream, a->m, bytes, "sgd: m");
    if (a->out)
        writes(r, stream, a->out, a->count * zero_dtype_bytes(a->out_dtype), "sgd: out");
}

void race_launch(struct race *r, uint32_t stream, uint32_t kernel, const void *args)
{
    const struct zero_scalars_args *s = args;
    const struct zero_total_args *t = args;

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
        adamw(r, stream, args);
        break;
    case ZERO_KERNEL_SGD:
        sgd(r, stream, args);
        break;
    case ZERO_KERNEL_CAST:
        cast(r, stream, args);
        break;
    }
}
