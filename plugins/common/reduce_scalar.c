/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating reductions in plain C, for any CPU and for the ends that do not fill a vector. Works in
 * blocks that stay in the first cache, one simple loop per step, so that compilers vectorise it.
 */
#include "reduce.h"

#define BLOCK 256u

static void load_block(float *x, uint32_t dtype, const void *base, uint64_t first, uint32_t n)
{
    const uint16_t *h = (const uint16_t *)base + first;

    if (dtype == ZERO_F32) {
        memcpy(x, (const float *)base + first, n * sizeof *x);
    } else if (dtype == ZERO_BF16) {
        for (uint32_t i = 0; i < n; i++)
            x[i] = zero_float_from_bf16(h[i]);
    } else {
        for (uint32_t i = 0; i < n; i++)
            x[i] = zero_float_from_fp16(h[i]);
    }
}

static void store_block(const float *x, uint32_t dtype, void *base, uint64_t first, uint32_t n)
{
    uint16_t *h = (uint16_t *)base + first;

    if (dtype == ZERO_F32) {
        memcpy((float *)base + first, x, n * sizeof *x);
    } else if (dtype == ZERO_BF16) {
        for (uint32_t i = 0; i < n; i++)
            h[i] = zero_bf16_from_float(x[i]);
    } else {
        for (uint32_t i = 0; i < n; i++)
            h[i] = zero_fp16_from_float(x[i]);
    }
}

static void add_block(float *a, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = a[i] + x[i];
}

/* The larger one; a NaN stays or comes in. */
static void max_block(float *a, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = (!(x[i] <= a[i]) && a[i] == a[i]) ? x[i] : a[i];
}

/* Which NaN an addition of two gives depends on the order of operands, so there is only one. */
static void canonical_block(float *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = a[i] == a[i] ? a[i] : zero_float_of_bits(0x7fc00000u);
}

void zero__reduce_float_scalar(const struct zero__reduce *r)
{
    float a[BLOCK], x[BLOCK];

    for (uint64_t i = 0; i < r->count; i += BLOCK) {
        uint32_t n = r->count - i < BLOCK ? (uint32_t)(r->count - i) : BLOCK;

        if (r->partial)
            load_block(a, ZERO_F32, r->partial, i, n);
        else
            load_block(a, r->src_dtype, r->src[0], r->first + i, n);
        for (uint32_t s = r->partial ? 0 : 1; s < r->n; s++) {
            load_block(x, r->src_dtype, r->src[s], r->first + i, n);
            if (r->redop == ZERO_SUM)
                add_block(a, x, n);
            else
                max_block(a, x, n);
        }
        for (uint32_t k = 0; k < n; k++)
            a[k] = a[k] * r->scale;
        if (r->accumulate) {
            load_block(x, ZERO_F32, r->dst, i, n);
            add_block(a, x, n);
        }
        canonical_block(a, n);
        store_block(a, r->dst_dtype, r->dst, i, n);
    }
}
