/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks for the planner, made to order. The same seed gives the same task everywhere. */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "lifetimes.h"

#define CUT_BYTES (UINT64_C(1) << 40)
#define CUT_UNIT UINT64_C(4096)
#define CUT_TIMES (UINT32_C(1) << 30)

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */
static uint64_t below(uint64_t *state, uint64_t n)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % n;
}

static int task_make(uint32_t n, struct lifetimes *out)
{
    *out = (struct lifetimes){.buffers = calloc(n + (size_t)1, sizeof *out->buffers)};
    return out->buffers ? 0 : zero__fail(-ENOMEM, "no memory for a task of %u buffers", n);
}

int lifetimes_cut(uint32_t n, uint64_t seed, struct lifetimes *out)
{
    int err = task_make(n, out);

    if (err)
        return err;
    out->buffers[0] = (struct zero__plan_buffer){.bytes = CUT_BYTES, .last = CUT_TIMES};
    out->n = 1;
    for (uint64_t tries = 0; out->n < n && tries < 100 * (uint64_t)n; tries++) {
        struct zero__plan_buffer *x = &out->buffers[below(&seed, out->n)];
        for (int k = 0; k < 3; k++) { /* the largest of four */
            struct zero__plan_buffer *y = &out->buffers[below(&seed, out->n)];
            if ((double)y->bytes * (y->last - y->first) > (double)x->bytes * (x->last - x->first))
                x = y;
        }
        struct zero__plan_buffer rest = *x;
        if (below(&seed, 2) && x->bytes > CUT_UNIT) {
            x->bytes = CUT_UNIT * (1 + below(&seed, x->bytes / CUT_UNIT - 1));
            rest.bytes -= x->bytes;
        } else if (x->last - x->first > 1) {
            x->last = x->first + 1 + (uint32_t)below(&seed, x->last - x->first - 1);
            rest.first = x->last;
        } else {
            continue;
        }
        out->buffers[out->n++] = rest;
    }
    return 0;
}

static void buffer_add(struct lifetimes *l, uint32_t most, uint64_t bytes, uint32_t first,
                       uint32_t last)
{
    if (l->n < most)
        l->buffers[l->n++] = (struct zero__plan_buffer){bytes, first, last, 0};
}

/*
 * Layer k of L computes at time k forward, at 2L - 1 - k backward. A layer's buffers: its input and
 * three more activations, kept until its backward pass; what only its forward or backward pass
 * uses; its parameters, gathered one layer ahead in each pass; its gradient, kept two layers long.
 */
int lifetimes_step(uint32_t n, uint64_t seed, struct lifetimes *out)
{
    const uint32_t per_layer = 11, n_layers = (n + per_layer - 1) / per_layer;
    int err = task_make(n, out);

    for (uint32_t k = 0; k < n_layers && !err; k++) {
        uint32_t f = k + 1, b = 2 * n_layers - k;
        uint64_t unit = CUT_UNIT * (256 + below(&seed, 64)); /* layers differ a little */
        for (uint64_t x = 1; x <= 4; x++)
            buffer_add(out, n, x * unit, f, b + 1);
        buffer_add(out, n, 4 * unit, f, f + 1);
        buffer_add(out, n, unit + CUT_UNIT * below(&seed, 64), f, f + 1);
        buffer_add(out, n, 6 * unit, f - 1, f + 1);
        buffer_add(out, n, 6 * unit, b - 1, b + 1);
        buffer_add(out, n, 6 * unit, b, b + 3);
        buffer_add(out, n, 5 * unit, b, b + 1);
        buffer_add(out, n, 2 * unit + CUT_UNIT * below(&seed, 64), b, b + 1);
    }
    return err;
}
