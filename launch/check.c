/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define N_KERNELS 10u

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
    [ZERO_KERNEL_UPDATES] = {"updates", sizeof(struct zero_updates_args)},
};

const char *zero__launch_name(uint32_t kernel)
{
    return kernel < N_KERNELS ? kernels[kernel].name : "?";
}

struct check {
    const char *kernel;
    char *why;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct check *c, int err,
                                                        const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->why, ZERO__LAUNCH_WHY, fmt, ap);
    va_end(ap);
    return err;
}

static bool is_real(uint32_t dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

/* count elements of `bytes` each at p: an aligned pointer, and an end that does not wrap. */
static int check_array(const struct check *c, const char *what, const void *p, uint64_t count,
                       uint32_t bytes)
{
    uint64_t size, end;

    if (count == 0)
        return 0;
    if (!p)
        return refuse(c, -EINVAL, "%s: %s is NULL", c->kernel, what);
    if ((uintptr_t)p % bytes)
        return refuse(c, -EINVAL, "%s: %s is at %p: it must be a multiple of %u bytes", c->kernel,
                      what, p, bytes);
    if (__builtin_mul_overflow(count, (uint64_t)bytes, &size) ||
        __builtin_add_overflow((uint64_t)(uintptr_t)p, size, &end))
        return refuse(c, -EINVAL, "%s: %s has %llu elements, more than memory can hold", c->kernel,
                      what, (unsigned long long)count);
    return 0;
}

static int check_reals(const struct check *c, const char *what, const void *p, uint64_t count,
                       uint32_t dtype)
{
    if (!is_real(dtype))
        return refuse(c, -EINVAL, "%s: the type of %s is %s (%u): it must be fp32, bf16 or fp16",
                      c->kernel, what, zero_dtype_name(dtype), dtype);
    return check_array(c, what, p, count, zero_dtype_bytes(dtype));
}

static int check_fill(const struct check *c, const struct zero_fill_args *a)
{
    uint32_t bytes = zero_dtype_bytes(a->dtype);
    int err;

    if (!bytes)
        return refuse(c, -EINVAL, "fill: element type %u is unknown", a->dtype);
    if ((err = check_array(c, "first", a->first, a->n, sizeof *a->first)) ||
        (err = check_array(c, "count", a->count, a->n, sizeof *a->count)))
        return err;
    for (uint32_t i = 0; i < a->n; i++) {
        uint64_t end;
        if (__builtin_add_overflow(a->first[i], a->count[i], &end))
            return refuse(c, -EINVAL, "fill: run %u ends beyond any memory", i);
        if ((err = check_array(c, "dst", a->dst, end, bytes)))
            return err;
    }
    return 0;
}

static int check_accumulate(const struct check *c, const struct zero_accumulate_args *a)
{
    int err = check_reals(c, "acc", a->acc, a->count, ZERO_F32);
    if (err || (err = check_reals(c, "x", a->x, a->count, a->x_dtype)))
        return err;
    if (a->beta > 1)
        return refuse(c, -EINVAL, "accumulate: beta is %u: it must be 0 or 1", a->beta);
    return 0;
}

static int check_sumsq(const struct check *c, const struct zero_sumsq_args *a)
{
    uint64_t blocks = a->count / ZERO_SUMSQ_BLOCK + (a->count % ZERO_SUMSQ_BLOCK != 0);
    int err = check_reals(c, "x", a->x, a->count, a->dtype);
    return err ? err : check_array(c, "partial", a->partial, blocks, sizeof *a->partial);
}

static int check_cast(const struct check *c, const struct zero_cast_args *a)
{
    int err = check_reals(c, "dst", a->dst, a->count, a->dst_dtype);
    return err ? err : check_reals(c, "x", a->x, a->count, a->x_dtype);
}

static int check_scalars(const struct check *c, const struct zero_scalars_args *a)
{
    int err = check_array(c, "scalars", a->scalars, 1, _Alignof(struct zero_scalars));
    if (err || (err = check_array(c, "sums", a->sums, a->ranks, sizeof *a->sums)))
        return err;
    if (!(a->inverse > 0) || !(a->clip >= 0) || !(a->growth >= 0))
        return refuse(c, -EINVAL,
                      "scalars: inverse %g, clip %g, growth %g: inverse must be "
                      "positive, the others at least 0",
                      (double)a->inverse, (double)a->clip, (double)a->growth);
    return 0;
}

static int check_total(const struct check *c, const struct zero_total_args *a)
{
    int err = check_array(c, "total", a->total, 1, sizeof *a->total);
    return err ? err : check_array(c, "x", a->x, a->count, sizeof *a->x);
}

static int check_sum(const struct check *c, const struct zero_sum_args *a)
{
    int err;

    if (a->n < 1 || a->n > ZERO_SUM_SOURCES)
        return refuse(c, -EINVAL,
                      "sum: %u sources: one launch takes 1 to %u, more are added piece by "
                      "piece through partial",
                      a->n, ZERO_SUM_SOURCES);
    if ((err = check_reals(c, "dst", a->dst, a->count, a->dst_dtype)) ||
        (err = check_array(c, "src", a->src, a->n, sizeof *a->src)) ||
        (err = check_array(c, "partial", a->partial, a->partial ? a->count : 0, sizeof(float))))
        return err;
    for (uint32_t i = 0; i < a->n; i++)
        if ((err = check_reals(c, "a source", a->src[i], a->count, a->src_dtype)))
            return err;
    if (a->accumulate > 1 || (a->accumulate && a->dst_dtype != ZERO_F32))
        return refuse(c, -EINVAL,
                      "sum: accumulate %u with dst of type %s: it must be 0, or 1 and fp32",
                      a->accumulate, zero_dtype_name(a->dst_dtype));
    return 0;
}

/* The master: whole, or in halves. */
static int check_master(const struct check *c, const struct zero_update_args *a)
{
    if (a->p || !a->low)
        return check_reals(c, "p", a->p, a->count, ZERO_F32);
    if (!a->out || a->out_dtype != ZERO_BF16)
        return refuse(c, -EINVAL,
                      "%s: low is the lower half of bf16 parameters: out must be "
                      "there and bf16",
                      c->kernel);
    return check_array(c, "low", a->low, a->count, sizeof *a->low);
}

static int check_update(const struct check *c, const struct zero_update_args *a, bool adam)
{
    uint32_t states = a->state_dtype ? a->state_dtype : (uint32_t)ZERO_F32;
    int err = check_master(c, a);

    if (states != ZERO_F32 && states != ZERO_BF16)
        return refuse(c, -EINVAL, "%s: the type of m and v is %s (%u): it must be fp32 or bf16",
                      c->kernel, zero_dtype_name(states), states);
    if (err || (err = check_reals(c, "grad", a->grad, a->count, a->grad_dtype)) ||
        (err = check_array(c, "scalars", a->scalars, 1, _Alignof(struct zero_scalars))))
        return err;
    if ((adam || a->hyper.momentum != 0) && (err = check_reals(c, "m", a->m, a->count, states)))
        return err;
    if (adam && (err = check_reals(c, "v", a->v, a->count, states)))
        return err;
    if (!a->out)
        return 0;
    if (a->out_dtype != ZERO_BF16 && a->out_dtype != ZERO_F16)
        return refuse(c, -EINVAL, "%s: the type of out is %s: it must be bf16 or fp16", c->kernel,
                      zero_dtype_name(a->out_dtype));
    return check_reals(c, "out", a->out, a->count, a->out_dtype);
}

static int check_updates(const struct check *c, const struct zero_updates_args *a)
{
    const bool adam = a->kernel == ZERO_KERNEL_ADAMW;
    int err = 0;

    if (!adam && a->kernel != ZERO_KERNEL_SGD)
        return refuse(c, -EINVAL, "updates: kernel %u: it must be adamw (%u) or sgd (%u)",
                      a->kernel, ZERO_KERNEL_ADAMW, ZERO_KERNEL_SGD);
    if (a->n < 1 || a->n > ZERO_UPDATES_MOST)
        return refuse(c, -EINVAL, "updates: %u of them: one launch takes 1 to %u", a->n,
                      ZERO_UPDATES_MOST);
    if (!a->update)
        return refuse(c, -EINVAL, "updates: update is NULL");
    for (uint32_t i = 0; i < a->n && !err; i++)
        err = check_update(c, &a->update[i], adam);
    return err;
}

int zero__launch_check(const struct zero_launch *l, const char *device, char why[ZERO__LAUNCH_WHY])
{
    struct check c = {zero__launch_name(l->kernel), why};

    if (l->kernel >= N_KERNELS)
        return refuse(&c, -ENOTSUP, "device %s knows no kernel %u", device, l->kernel);
    if (l->flags)
        return refuse(&c, -EINVAL, "%s: flags 0x%x: they must be 0", c.kernel, l->flags);
    if (!l->args || l->args_bytes != kernels[l->kernel].args_bytes)
        return refuse(&c, -EINVAL, "%s: arguments of %llu bytes: %llu are expected", c.kernel,
                      (unsigned long long)l->args_bytes,
                      (unsigned long long)kernels[l->kernel].args_bytes);
    switch (l->kernel) {
    case ZERO_KERNEL_FILL:
        return check_fill(&c, l->args);
    case ZERO_KERNEL_ACCUMULATE:
        return check_accumulate(&c, l->args);
    case ZERO_KERNEL_SUMSQ:
        return check_sumsq(&c, l->args);
    case ZERO_KERNEL_SCALARS:
        return check_scalars(&c, l->args);
    case ZERO_KERNEL_CAST:
        return check_cast(&c, l->args);
    case ZERO_KERNEL_TOTAL:
        return check_total(&c, l->args);
    case ZERO_KERNEL_SUM:
        return check_sum(&c, l->args);
    case ZERO_KERNEL_UPDATES:
        return check_updates(&c, l->args);
    default:
        return check_update(&c, l->args, l->kernel == ZERO_KERNEL_ADAMW);
    }
}
