/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One update, checked: the norm against a sum over the whole gradient, and elements all over the
 * states, bit for bit, against the formulas of zero/device.h written down once more.
 */
#include "config.h"

#include "bench_optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "check/values.h"

#define CHECKED 65536u /* elements, an odd number apart: of every lane of a vector */

static float grad_at(const struct optimizer *x, uint64_t i)
{
    return value_float(x->o->grad_dtype, value_load(x->o->grad_dtype, x->grad, i));
}

void optimizer_fill(struct optimizer *x)
{
    for (uint64_t i = 0; i < x->o->params; i++) {
        value_store(x->o->grad_dtype, x->grad, i,
                    value_round(x->o->grad_dtype, 1e-2f * value_plain(0, 0, i)));
        x->p[i] = value_plain(0, 1, i);
        x->m[i] = 1e-2f * value_plain(0, 2, i);
        x->v[i] = 1e-4f * fabsf(value_plain(0, 3, i));
    }
    *x->scalars = (struct zero_scalars){.loss_scale = 1};
}

static double power(double x, uint64_t n)
{
    double r = 1;

    for (; n; n >>= 1, x *= x)
        if (n & 1)
            r *= x;
    return r;
}

struct state {
    float p, m, v;
};

static void reference(const struct optimizer *x, uint64_t i, struct state *s)
{
    const struct zero_hyper *h = &x->hyper;
    double lr = (double)h->lr;
    float rest1 = (float)(1 - (double)h->beta1), rest2 = (float)(1 - (double)h->beta2);
    float unbias = (float)(1 / sqrt(1 - power((double)h->beta2, x->scalars->step)));
    float rate = (float)-(lr / (1 - power((double)h->beta1, x->scalars->step)));
    float g = grad_at(x, i) * x->scalars->factor;

    s->m = fmaf(rest1, g - s->m, s->m);
    s->v = fmaf(s->v, h->beta2, (rest2 * g) * g);
    s->p = s->p * (float)(1 - lr * (double)h->weight_decay);
    s->p = fmaf(rate, s->m / fmaf(sqrtf(s->v), unbias, h->eps), s->p);
}

static bool out_good(const struct optimizer *x, uint64_t i, float p)
{
    if (!x->out)
        return true;
    return value_load(x->o->dtype, x->out, i) == value_round(x->o->dtype, p);
}

static bool norm_good(const struct optimizer *x)
{
    double sum = 0, norm, factor;

    for (uint64_t i = 0; i < x->o->params; i++)
        sum += (double)grad_at(x, i) * (double)grad_at(x, i);
    norm = sqrt(sum);
    factor = fmin(1, (double)x->clip / (x->scalars->grad_norm + 1e-6));
    if (fabs(x->scalars->grad_norm - norm) <= 1e-9 * norm && (float)factor == x->scalars->factor)
        return true;
    fprintf(stderr,
            "zero bench optimizer: the norm is %.12g and the factor %.9g, not %.12g and %.9g\n",
            x->scalars->grad_norm, (double)x->scalars->factor, norm, factor);
    return false;
}

static bool compare(struct optimizer *x, uint64_t n, uint64_t step, struct state *before)
{
    if (x->o->spoil && n > 1)
        x->v[step] += 1e-6f;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = k * step;
        struct state s = before[k];
        reference(x, i, &s);
        if (s.p == x->p[i] && s.m == x->m[i] && s.v == x->v[i] && out_good(x, i, s.p))
            continue;
        fprintf(stderr,
                "zero bench optimizer: element %" PRIu64
                " is p %.9g, m %.9g, v %.9g, not %.9g, %.9g, %.9g (or its %s copy is wrong): the "
                "figures mean nothing\n",
                i, (double)x->p[i], (double)x->m[i], (double)x->v[i], (double)s.p, (double)s.m,
                (double)s.v, zero_dtype_name(x->o->dtype));
        return false;
    }
    return norm_good(x);
}

int optimizer_check(struct optimizer *x, bool *ok)
{
    uint64_t n = x->o->params < CHECKED ? x->o->params : CHECKED, step = x->o->params / n;

    step -= step > 1 && step % 2 == 0;
    struct state *before = calloc(n, sizeof *before);

    if (!before)
        return zero__fail(-ENOMEM, "no memory to check %" PRIu64 " elements", n);
    for (uint64_t k = 0; k < n; k++)
        before[k] = (struct state){x->p[k * step], x->m[k * step], x->v[k * step]};
    int err = optimizer_run(x, OPTIMIZER_UPDATE);
    if (!err)
        *ok = compare(x, n, step, before);
    free(before);
    return err;
}
