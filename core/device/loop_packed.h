/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates on states in fewer bytes: block by block they are made whole on the stack, updated there
 * by the loops of loop_update.h, and packed again. What goes to memory and back is the packed form
 * alone. Included by each isa_*.c after loop_update.h.
 *
 * Loops over a whole block have a constant number of turns, so that compilers make vectors of them.
 */
#ifndef ZERO_DEVICE_LOOP_PACKED_H
#define ZERO_DEVICE_LOOP_PACKED_H

#include "device/loop_update.h"

#define BLOCK 512

struct whole {
    float p[BLOCK], m[BLOCK], v[BLOCK];
};

/* Halves of a block's states, padded if it is the last one and shorter. */
struct halves {
    uint16_t out[BLOCK], low[BLOCK], m[BLOCK], v[BLOCK];
};

LOOP const uint16_t *block_of(const uint16_t *x, uint16_t *padded, uint64_t n)
{
    if (n == BLOCK)
        return x;
    memset(padded, 0, BLOCK * sizeof *padded);
    memcpy(padded, x, n * sizeof *padded);
    return padded;
}

LOOP void join(float *restrict p, const uint16_t *restrict h, const uint16_t *restrict low)
{
    for (int i = 0; i < BLOCK; i++)
        p[i] = zero_join_bf16(h[i], low[i]);
}

LOOP void widen(float *restrict x, const uint16_t *restrict h)
{
    for (int i = 0; i < BLOCK; i++)
        x[i] = zero_float_from_bf16(h[i]);
}

LOOP void cut(uint16_t *restrict low, const float *restrict p)
{
    for (int i = 0; i < BLOCK; i++)
        low[i] = zero_low_half(p[i]);
}

LOOP void narrow(uint16_t *restrict h, const float *restrict x, uint64_t number, uint64_t step,
                 uint32_t shift)
{
    for (int i = 0; i < BLOCK; i++)
        h[i] =
            zero_bf16_rounded(x[i], (uint16_t)(zero_rounding(number + (uint32_t)i, step) >> shift));
}

LOOP void unpack(const struct zero__update *u, struct whole *w, struct halves *x, uint64_t i,
                 uint64_t n)
{
    if (u->low)
        join(w->p, block_of((uint16_t *)u->out + i, x->out, n), block_of(u->low + i, x->low, n));
    if (u->half_m)
        widen(w->m, block_of(u->half_m + i, x->m, n));
    if (u->half_v)
        widen(w->v, block_of(u->half_v + i, x->v, n));
}

LOOP void pack(const struct zero__update *u, const struct whole *w, struct halves *x, uint64_t i,
               uint64_t n)
{
    if (u->low) {
        cut(x->low, w->p);
        memcpy(u->low + i, x->low, n * sizeof *x->low);
    }
    if (u->half_m) {
        narrow(x->m, w->m, u->number + i, u->step, 0);
        memcpy(u->half_m + i, x->m, n * sizeof *x->m);
    }
    if (u->half_v) {
        narrow(x->v, w->v, u->number + i, u->step, 16);
        memcpy(u->half_v + i, x->v, n * sizeof *x->v);
    }
}

/* The update of one block: its operands begin at element 0. */
LOOP struct zero__update block_update(const struct zero__update *u, struct whole *w, uint64_t i)
{
    struct zero__update b = *u;

    b.stream = false; /* of so few elements at a time */
    b.p = u->low ? w->p : u->p + i;
    b.m = u->half_m ? w->m : u->m ? u->m + i : NULL;
    b.v = u->half_v ? w->v : u->v ? u->v + i : NULL;
    b.grad = (const char *)u->grad + i * width_of(u->grad_dtype);
    b.out = u->out ? (char *)u->out + i * width_of(u->out_dtype) : NULL;
    return b;
}

LOOP void packed_loop(const struct zero__update *u, uint64_t i, uint64_t count, bool adam)
{
    struct whole w;
    struct halves x;

    for (uint64_t end = i + count; i < end; i += BLOCK) {
        uint64_t n = end - i < BLOCK ? end - i : BLOCK;
        struct zero__update b = block_update(u, &w, i);
        unpack(u, &w, &x, i, n);
        if (adam)
            adamw(&b, 0, n);
        else
            sgd(&b, 0, n);
        pack(u, &w, &x, i, n);
    }
}

ISA static void adamw_packed(const struct zero__update *u, uint64_t first, uint64_t count)
{
    packed_loop(u, first, count, true);
}

ISA static void sgd_packed(const struct zero__update *u, uint64_t first, uint64_t count)
{
    packed_loop(u, first, count, false);
}

#undef BLOCK

#endif
