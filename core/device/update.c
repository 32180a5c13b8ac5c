/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all elements of an update share: derived in fp64 and rounded to fp32 once. libm's pow() may
 * differ in the last bit from one C library to the next, so powers are products in a fixed order.
 */
#include <math.h>

#include "device/kernels.h"

/*
 * Parameters of a launch whose 16-bit copy goes past the caches: 28 bytes of each are touched, and
 * what follows is the next unit. Smaller launches may find their copy in the caches when it is
 * read.
 */
#define STREAM_FROM (UINT64_C(1) << 20)

/* x^n by squaring, from the lowest bit of n up. */
static double power(double x, uint64_t n)
{
    double r = 1;

    for (; n; n >>= 1, x *= x)
        if (n & 1)
            r *= x;
    return r;
}

bool zero__update_prepare(uint32_t kernel, const struct zero_update_args *a, struct zero__update *u)
{
    const struct zero_hyper *h = &a->hyper;
    const struct zero_scalars *s = a->scalars;
    bool adam = kernel == ZERO_KERNEL_ADAMW;
    double bias1 = 1 - power(h->beta1, s->step), bias2 = 1 - power(h->beta2, s->step);

    bool half = a->state_dtype == ZERO_BF16;
    void *m = adam || h->momentum != 0 ? a->m : NULL, *v = adam ? a->v : NULL;

    if (s->skip)
        return false;
    *u = (struct zero__update){
        .p = a->p,
        .m = half ? NULL : m,
        .v = half ? NULL : v,
        .grad = a->grad,
        .out = a->out,
        .grad_dtype = a->grad_dtype,
        .out_dtype = a->out ? a->out_dtype : (uint32_t)ZERO_F32,
        .coupled = h->flags & ZERO_HYPER_COUPLED,
        .nesterov = h->flags & ZERO_HYPER_NESTEROV,
        .first = s->step == 1,
        .stream = a->count >= STREAM_FROM,
        .factor = s->factor,
        .weight_decay = h->weight_decay,
        .decay = (float)(1 - (double)h->lr * (double)h->weight_decay),
        .beta2 = h->beta2,
        .rest1 = (float)(1 - (double)h->beta1),
        .rest2 = (float)(1 - (double)h->beta2),
        .eps = h->eps,
        .unbias = (float)(1 / sqrt(bias2)),
        .rate = (float)-((double)h->lr / bias1),
        .lr = -h->lr,
        .momentum = h->momentum,
        .undamped = (float)(1 - (double)h->dampening),
        .packed = !a->p || (half && m),
        .low = a->p ? NULL : a->low,
        .half_m = half ? m : NULL,
        .half_v = half ? v : NULL,
        .number = a->first,
        .step = s->step,
    };
    return true;
}
