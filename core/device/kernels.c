/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a launch to loops: checks, the cut into chunks, and running one chunk. Whatever gets past
 * zero__kernel_check() cannot fail any more, so that running needs no error path.
 */
#include "device/kernels.h"

#include <string.h>

#include "base/checked.h"
#include "base/status.h"

#define N_KERNELS 9u

static const struct {
    const char *name;
    uint64_t args_bytes;
} kernels[N_KERNELS] = {
    [ZERO_KERNEL_FILL] = {"fill", sizeof(struct zero_fill_args)},
    [ZERO_KERNEL_ACCUMULATE] = {"accumulate", sizeof(struct zero_accumulate_args)},
    [ZERO_KERNEL_SUMSQ] = {"sumsq", sizeof(struct zero_sumsq_args)},
    [ZERO_KERNEL_SCALARS] = {"scalars", sizeof(struct zero_scalars_args)},
    [ZERO_KERNEL_ADAMW] = {"adamw", sizeof(struct zero_update_args)},
    [ZERO_KERNEL_SGD] = {"sgd", sizeof(struct zero_update_args)},
    [ZERO_KERNEL_CAST] = {"cast", sizeof(struct zero_cast_args)},
    [ZERO_KERNEL_TOTAL] = {"total", sizeof(struct zero_total_args)},
    [ZERO_KERNEL_SUM] = {"sum", sizeof(struct zero_sum_args)},
};

const char *zero__kernel_name(uint32_t kernel)
{
    return kernel < N_KERNELS ? kernels[kernel].name : "?";
}

static bool is_real(uint32_t dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

static int check_dtype(const char *kernel, const char *what, uint32_t dtype)
{
    if (is_real(dtype))
        return 0;
    return zero__fail(-EINVAL, "%s: the type of %s is %s (%u): it must be fp32, bf16 or fp16",
                      kernel, what, zero_dtype_name(dtype), dtype);
}

/* count elements of `bytes` each at p: an aligned pointer, and an end that does not wrap. */
static int check_array(const char *kernel, const char *what, const void *p, uint64_t count,
                       uint32_t bytes)
{
    uint64_t size, end;

    if (count == 0)
        return 0;
    if (!p)
        return zero__fail(-EINVAL, "%s: %s is NULL", kernel, what);
    if ((uintptr_t)p % bytes)
        return zero__fail(-EINVAL, "%s: %s is at %p: it must be a multiple of %u bytes", kernel,
                          what, p, bytes);
    if (zero__mul(count, bytes, &size) || zero__add((uintptr_t)p, size, &end))
        return zero__fail(-EINVAL, "%s: %s has %llu elements, more than memory can hold", kernel,
                          what, (unsigned long long)count);
    return 0;
}

static int check_reals(const char *kernel, const char *what, const void *p, uint64_t count,
                       uint32_t dtype)
{
    int err = check_dtype(kernel, what, dtype);
    return err ? err : check_array(kernel, what, p, count, zero_dtype_bytes(dtype));
}

static int check_fill(const struct zero_fill_args *a)
{
    uint32_t bytes = zero_dtype_bytes(a->dtype);
    int err;

    if (!bytes)
        return zero__fail(-EINVAL, "fill: element type %u is unknown", a->dtype);
    if ((err = check_array("fill", "first", a->first, a->n, sizeof *a->first)) ||
        (err = check_array("fill", "count", a->count, a->n, sizeof *a->count)))
        return err;
    for (uint32_t i = 0; i < a->n; i++) {
        uint64_t end;
        if (zero__add(a->first[i], a->count[i], &end))
            return zero__fail(-EINVAL, "fill: run %u ends beyond any memory", i);
        if ((err = check_array("fill", "dst", a->dst, end, bytes)))
            return err;
    }
    return 0;
}

static int check_accumulate(const struct zero_accumulate_args *a)
{
    int err = check_reals("accumulate", "acc", a->acc, a->count, ZERO_F32);
    if (err || (err = check_reals("accumulate", "x", a->x, a->count, a->x_dtype)))
        return err;
    if (a->beta > 1)
        return zero__fail(-EINVAL, "accumulate: beta is %u: it must be 0 or 1", a->beta);
    return 0;
}

static int check_sumsq(const struct zero_sumsq_args *a)
{
    uint64_t blocks = a->count / ZERO_SUMSQ_BLOCK + (a->count % ZERO_SUMSQ_BLOCK != 0);
    int err = check_reals("sumsq", "x", a->x, a->count, a->dtype);
    return err ? err : check_array("sumsq", "partial", a->partial, blocks, sizeof *a->partial);
}

static int check_cast(const struct zero_cast_args *a)
{
    int err = check_reals("cast", "dst", a->dst, a->count, a->dst_dtype);
    return err ? err : check_reals("cast", "x", a->x, a->count, a->x_dtype);
}

static int check_scalars(const struct zero_scalars_args *a)
{
    int err = check_array("scalars", "scalars", a->scalars, 1, _Alignof(struct zero_scalars));
    if (err || (err = check_array("scalars", "sums", a->sums, a->ranks, sizeof *a->sums)))
        return err;
    if (!(a->inverse > 0) || !(a->clip >= 0) || !(a->growth >= 0))
        return zero__fail(-EINVAL,
                          "scalars: inverse %g, clip %g, growth %g: inverse must be "
                          "positive, the others at least 0",
                          (double)a->inverse, (double)a->clip, (double)a->growth);
    return 0;
}

static int check_total(const struct zero_total_args *a)
{
    int err = check_array("total", "total", a->total, 1, sizeof *a->total);
    return err ? err : check_array("total", "x", a->x, a->count, sizeof *a->x);
}

static int check_sum(const struct zero_sum_args *a)
{
    int err;

    if (a->n < 1 || a->n > ZERO_SUM_SOURCES)
        return zero__fail(
            -EINVAL,
            "sum: %u sources: one launch takes 1 to %u, more are added piece by piece "
            "through partial",
            a->n, ZERO_SUM_SOURCES);
    if ((err = check_reals("sum", "dst", a->dst, a->count, a->dst_dtype)) ||
        (err = check_array("sum", "src", a->src, a->n, sizeof *a->src)) ||
        (err = check_array("sum", "partial", a->partial, a->partial ? a->count : 0, sizeof(float))))
        return err;
    for (uint32_t i = 0; i < a->n; i++)
        if ((err = check_reals("sum", "a source", a->src[i], a->count, a->src_dtype)))
            return err;
    if (a->accumulate > 1 || (a->accumulate && a->dst_dtype != ZERO_F32))
        return zero__fail(-EINVAL,
                          "sum: accumulate %u with dst of type %s: it must be 0, or 1 and fp32",
                          a->accumulate, zero_dtype_name(a->dst_dtype));
    return 0;
}

/* The master: whole, or in halves. */
static int check_master(const char *kernel, const struct zero_update_args *a)
{
    if (a->p || !a->low)
        return check_reals(kernel, "p", a->p, a->count, ZERO_F32);
    if (!a->out || a->out_dtype != ZERO_BF16)
        return zero__fail(-EINVAL,
                          "%s: low is the lower half of bf16 parameters: out must be "
                          "there and bf16",
                          kernel);
    return check_array(kernel, "low", a->low, a->count, sizeof *a->low);
}

static int check_update(const char *kernel, const struct zero_update_args *a, bool adam)
{
    uint32_t states = a->state_dtype ? a->state_dtype : (uint32_t)ZERO_F32;
    int err = check_master(kernel, a);

    if (states != ZERO_F32 && states != ZERO_BF16)
        return zero__fail(-EINVAL, "%s: the type of m and v is %s (%u): it must be fp32 or bf16",
                          kernel, zero_dtype_name(states), states);
    if (err || (err = check_reals(kernel, "grad", a->grad, a->count, a->grad_dtype)) ||
        (err = check_array(kernel, "scalars", a->scalars, 1, _Alignof(struct zero_scalars))))
        return err;
    if ((adam || a->hyper.momentum != 0) &&
        (err = check_reals(kernel, "m", a->m, a->count, states)))
        return err;
    if (adam && (err = check_reals(kernel, "v", a->v, a->count, states)))
        return err;
    if (!a->out)
        return 0;
    if (a->out_dtype != ZERO_BF16 && a->out_dtype != ZERO_F16)
        return zero__fail(-EINVAL, "%s: the type of out is %s: it must be bf16 or fp16", kernel,
                          zero_dtype_name(a->out_dtype));
    return check_reals(kernel, "out", a->out, a->count, a->out_dtype);
}

int zero__kernel_check(const struct zero_launch *launch)
{
    const void *args = launch->args;
    uint32_t kernel = launch->kernel;

    if (kernel >= N_KERNELS)
        return zero__fail(-ENOTSUP, "kernel %u is unknown to the host device", kernel);
    if (launch->flags)
        return zero__fail(-EINVAL, "%s: flags 0x%x: they must be 0", kernels[kernel].name,
                          launch->flags);
    if (!args || launch->args_bytes != kernels[kernel].args_bytes)
        return zero__fail(-EINVAL, "%s: arguments of %llu bytes: %llu are expected",
                          kernels[kernel].name, (unsigned long long)launch->args_bytes,
                          (unsigned long long)kernels[kernel].args_bytes);
    switch (kernel) {
    case ZERO_KERNEL_FILL:
        return check_fill(args);
    case ZERO_KERNEL_ACCUMULATE:
        return check_accumulate(args);
    case ZERO_KERNEL_SUMSQ:
        return check_sumsq(args);
    case ZERO_KERNEL_SCALARS:
        return check_scalars(args);
    case ZERO_KERNEL_CAST:
        return check_cast(args);
    case ZERO_KERNEL_TOTAL:
        return check_total(args);
    case ZERO_KERNEL_SUM:
        return check_sum(args);
    default:
        return check_update(kernels[kernel].name, args, kernel == ZERO_KERNEL_ADAMW);
    }
}

static uint64_t pieces(uint64_t count, uint64_t piece)
{
    return count / piece + (count % piece != 0);
}

uint64_t zero__kernel_chunks(uint32_t kernel, const void *args)
{
    switch (kernel) {
    case ZERO_KERNEL_FILL: {
        const struct zero_fill_args *a = args;
        if (a->n != 1)
            return pieces(a->n, ZERO__FILL_RUNS);
        return pieces(a->count[0] * zero_dtype_bytes(a->dtype), ZERO__CHUNK_BYTES);
    }
    case ZERO_KERNEL_ACCUMULATE:
        return pieces(((const struct zero_accumulate_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_SUMSQ:
        return pieces(((const struct zero_sumsq_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_CAST:
        return pieces(((const struct zero_cast_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_SUM:
        return pieces(((const struct zero_sum_args *)args)->count, ZERO__CHUNK);
    case ZERO_KERNEL_SCALARS:
    case ZERO_KERNEL_TOTAL:
        return 1;
    default:
        return pieces(((const struct zero_update_args *)args)->count, ZERO__CHUNK);
    }
}

static void run_fill(const struct zero_fill_args *a, uint64_t chunk)
{
    uint64_t bytes = zero_dtype_bytes(a->dtype), i = chunk * ZERO__FILL_RUNS;

    if (a->n == 1) {
        uint64_t at = chunk * ZERO__CHUNK_BYTES, rest = a->count[0] * bytes - at;
        memset((char *)a->dst + a->first[0] * bytes + at, 0,
               rest < ZERO__CHUNK_BYTES ? rest : ZERO__CHUNK_BYTES);
        return;
    }
    for (uint64_t stop = i + ZERO__FILL_RUNS; i < stop && i < a->n; i++)
        memset((char *)a->dst + a->first[i] * bytes, 0, a->count[i] * bytes);
}

static void run_total(const struct zero_total_args *a)
{
    double total = 0;

    for (uint64_t i = 0; i < a->count; i++)
        total += a->x[i];
    *a->total = total;
}

/* Equal types keep every bit, of NaNs too. */
static void run_cast(const struct zero__loops *loops, const struct zero_cast_args *a,
                     uint64_t first, uint64_t count)
{
    uint64_t bytes = zero_dtype_bytes(a->dst_dtype);

    if (a->dst_dtype == a->x_dtype)
        memmove((char *)a->dst + first * bytes, (const char *)a->x + first * bytes, count * bytes);
    else
        loops->cast(a, first, count);
}

static void run_update(const struct zero__loops *loops, uint32_t kernel,
                       const struct zero_update_args *a, uint64_t first, uint64_t count)
{
    struct zero__update u;

    if (!zero__update_prepare(kernel, a, &u))
        return;
    if (kernel == ZERO_KERNEL_ADAMW)
        (u.packed ? loops->adamw_packed : loops->adamw)(&u, first, count);
    else
        (u.packed ? loops->sgd_packed : loops->sgd)(&u, first, count);
}

/* Elements of the chunk that starts at `first`. */
static uint64_t chunk_of(uint64_t count, uint64_t first)
{
    return count - first < ZERO__CHUNK ? count - first : ZERO__CHUNK;
}

void zero__kernel_run(const struct zero__loops *loops, uint32_t kernel, const void *args,
                      uint64_t chunk)
{
    const struct zero_accumulate_args *accumulate = args;
    const struct zero_sumsq_args *sumsq = args;
    const struct zero_cast_args *cast = args;
    const struct zero_update_args *update = args;
    const struct zero_sum_args *sum = args;
    uint64_t first = chunk * ZERO__CHUNK;

    switch (kernel) {
    case ZERO_KERNEL_FILL:
        run_fill(args, chunk);
        break;
    case ZERO_KERNEL_ACCUMULATE:
        loops->accumulate(accumulate, first, chunk_of(accumulate->count, first));
        break;
    case ZERO_KERNEL_SUMSQ:
        loops->sumsq(sumsq, first, chunk_of(sumsq->count, first));
        break;
    case ZERO_KERNEL_SCALARS:
        zero__kernel_scalars(args);
        break;
    case ZERO_KERNEL_TOTAL:
        run_total(args);
        break;
    case ZERO_KERNEL_CAST:
        run_cast(loops, cast, first, chunk_of(cast->count, first));
        break;
    case ZERO_KERNEL_SUM:
        loops->sum(sum, first, chunk_of(sum->count, first));
        break;
    case ZERO_KERNEL_ADAMW:
    case ZERO_KERNEL_SGD:
        run_update(loops, kernel, update, first, chunk_of(update->count, first));
        break;
    }
}
