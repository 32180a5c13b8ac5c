/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One update, checked: the norm against a sum over the whole gradient, and elements all over the
 * states and at the ends of launches, where loops have other code, bit for bit, against the
 * formulas of zero/device.h written down once more.
 */
#include "config.h"

#include "states.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "tools/common/values.h"

#define CHECKED 65536u /* elements, an odd number apart: of every lane of a vector */
#define EDGE 64u       /* and so many at both ends of each unit, */
#define MOST_UNITS 256u /* of at most so many: the first ones and the last */

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

/* Which elements are checked. */
struct sample {
    uint64_t n, n_spread, step; /* all; the first ones, so far apart */
    uint64_t n_units;
};

static struct sample sample_of(const struct optimizer_options *o)
{
    struct sample s = {.n_spread = o->params < CHECKED ? o->params : CHECKED,
                       .n_units = (o->params + o->unit - 1) / o->unit};

    s.step = o->params / s.n_spread;
    s.step -= s.step > 1 && s.step % 2 == 0;
    s.n = s.n_spread + 2 * EDGE * (s.n_units < MOST_UNITS ? s.n_units : MOST_UNITS);
    return s;
}

static uint64_t element(const struct optimizer_options *o, const struct sample *s, uint64_t k)
{
    if (k < s->n_spread)
        return k * s->step;
    k -= s->n_spread;
    uint64_t u = k / (2 * EDGE), at = k % (2 * EDGE);
    if (u == MOST_UNITS - 1)
        u = s->n_units - 1;
    uint64_t first = u * o->unit, n = o->params - first < o->unit ? o->params - first : o->unit;
    if (at >= EDGE) /* the last one comes last */
        at = n > 2 * EDGE ? n - 2 * EDGE + at : at;
    return first + (at < n ? at : n - 1);
}

static bool compare(struct optimizer *x, const struct sample *of, struct state *before)
{
    if (x->o->spoil && of->n_spread > 1)
        x->v[of->step] += 1e-6f;
    for (uint64_t k = 0; k < of->n; k++) {
        uint64_t i = element(x->o, of, k);
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
    const struct sample of = sample_of(x->o);
    struct state *before = calloc(of.n, sizeof *before);

    if (!before)
        return zero__fail(-ENOMEM, "no memory to check %" PRIu64 " elements", of.n);
    for (uint64_t k = 0; k < of.n; k++) {
        uint64_t i = element(x->o, &of, k);
        before[k] = (struct state){x->p[i], x->m[i], x->v[i]};
    }
    int err = optimizer_run(x, OPTIMIZER_UPDATE);
    if (!err)
        *ok = compare(x, &of, before);
    free(before);
    return err;
}
