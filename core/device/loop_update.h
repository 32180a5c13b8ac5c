/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops of the optimizers, ADAMW and SGD: one pass that reads the gradient and the states once and
 * writes the states and the 16-bit copy once, which is all the memory traffic there has to be. The
 * copy is not read here, so in an update that is larger than caches it goes past them: a store to
 * memory that is in no cache would read it first.
 * Included by each isa_*.c after loop_convert.h.
 */
#ifndef ZERO_DEVICE_LOOP_UPDATE_H
#define ZERO_DEVICE_LOOP_UPDATE_H

#include "device/loop_convert.h"

/* The types and the variant, constants of each instance of the loop. */
struct shape {
    uint32_t grad, out; /* out ZERO_F32: none */
    bool adam, coupled, momentum;
    bool stream; /* out goes past the caches */
};

/* Hoists the common factors into registers: stores through float pointers may alias *u. */
struct common {
    vec factor, weight_decay, decay, beta2, rest1, rest2, eps, unbias, rate, lr, momentum, undamped;
    bool nesterov, first;
};

LOOP struct common common_of(const struct zero__update *u)
{
    return (struct common){
        .factor = vec_all(u->factor),
        .weight_decay = vec_all(u->weight_decay),
        .decay = vec_all(u->decay),
        .beta2 = vec_all(u->beta2),
        .rest1 = vec_all(u->rest1),
        .rest2 = vec_all(u->rest2),
        .eps = vec_all(u->eps),
        .unbias = vec_all(u->unbias),
        .rate = vec_all(u->rate),
        .lr = vec_all(u->lr),
        .momentum = vec_all(u->momentum),
        .undamped = vec_all(u->undamped),
        .nesterov = u->nesterov,
        .first = u->first,
    };
}

LOOP void store_out(void *out, uint64_t i, vec p, struct shape s)
{
    if (s.out != ZERO_F32 && s.stream)
        stream_half((uint16_t *)out + i, s.out, p);
    else if (s.out != ZERO_F32)
        store(out, i, s.out, p);
}

LOOP void adamw_step(float *p_at, float *m_at, float *v_at, const void *grad, void *out, uint64_t i,
                     const struct common *c, struct shape s)
{
    vec p = load_fp32(p_at + i), m = load_fp32(m_at + i), v = load_fp32(v_at + i);
    vec g = vec_mul(load(grad, i, s.grad), c->factor);

    if (s.coupled)
        g = vec_fma(c->weight_decay, p, g);
    else
        p = vec_mul(p, c->decay);
    m = vec_fma(c->rest1, vec_sub(g, m), m);
    v = vec_fma(v, c->beta2, vec_mul(vec_mul(c->rest2, g), g));
    p = vec_fma(c->rate, vec_div(m, vec_fma(vec_sqrt(v), c->unbias, c->eps)), p);
    store_fp32(m_at + i, m);
    store_fp32(v_at + i, v);
    store_fp32(p_at + i, p);
    store_out(out, i, p, s);
}

LOOP void sgd_step(float *p_at, float *m_at, const void *grad, void *out, uint64_t i,
                   const struct common *c, struct shape s)
{
    vec p = load_fp32(p_at + i), g = vec_mul(load(grad, i, s.grad), c->factor);

    if (s.coupled)
        g = vec_fma(c->weight_decay, p, g);
    else
        p = vec_mul(p, c->decay);
    if (s.momentum) {
        vec m = c->first ? g : vec_fma(c->momentum, load_fp32(m_at + i), vec_mul(c->undamped, g));
        store_fp32(m_at + i, m);
        g = c->nesterov ? vec_fma(c->momentum, m, g) : m;
    }
    p = vec_fma(c->lr, g, p);
    store_fp32(p_at + i, p);
    store_out(out, i, p, s);
}

/* The last elements, fewer than a vector: the states of a step in padded memory. */
struct rest {
    float p[WIDTH], m[WIDTH], v[WIDTH], grad[WIDTH], out[WIDTH];
};

LOOP void rest_load(struct rest *r, const struct zero__update *u, uint64_t i, uint64_t n,
                    struct shape s)
{
    pad(r->p, u->p, i, n, ZERO_F32);
    pad(r->grad, u->grad, i, n, s.grad);
    if (u->m)
        pad(r->m, u->m, i, n, ZERO_F32);
    if (u->v)
        pad(r->v, u->v, i, n, ZERO_F32);
}

LOOP void rest_store(const struct rest *r, const struct zero__update *u, uint64_t i, uint64_t n,
                     struct shape s)
{
    memcpy(u->p + i, r->p, n * sizeof(float));
    if (u->m)
        memcpy(u->m + i, r->m, n * sizeof(float));
    if (u->v)
        memcpy(u->v + i, r->v, n * sizeof(float));
    if (s.out != ZERO_F32)
        memcpy((uint16_t *)u->out + i, r->out, n * sizeof(uint16_t));
}

LOOP void update_loop(const struct zero__update *u, uint64_t i, uint64_t end, struct shape s)
{
    const struct common c = common_of(u);
    float *p = u->p, *m = u->m, *v = u->v;
    const void *grad = u->grad;
    void *out = u->out;
    struct rest r;

    for (; end - i >= WIDTH; i += WIDTH)
        if (s.adam)
            adamw_step(p, m, v, grad, out, i, &c, s);
        else
            sgd_step(p, m, grad, out, i, &c, s);
    if (s.stream)
        stream_end();
    if (i == end)
        return;
    s.stream = false;
    rest_load(&r, u, i, end - i, s);
    if (s.adam)
        adamw_step(r.p, r.m, r.v, r.grad, r.out, 0, &c, s);
    else
        sgd_step(r.p, r.m, r.grad, r.out, 0, &c, s);
    rest_store(&r, u, i, end - i, s);
}

#define SHAPES(CASE)           \
    CASE(ZERO_F32, ZERO_F32)   \
    CASE(ZERO_F32, ZERO_BF16)  \
    CASE(ZERO_F32, ZERO_F16)   \
    CASE(ZERO_BF16, ZERO_F32)  \
    CASE(ZERO_BF16, ZERO_BF16) \
    CASE(ZERO_BF16, ZERO_F16)  \
    CASE(ZERO_F16, ZERO_F32)   \
    CASE(ZERO_F16, ZERO_BF16)  \
    CASE(ZERO_F16, ZERO_F16)
#define SHAPE(grad, out, coupled, momentum) \
    ((grad) << 6 | (out) << 2 | (uint32_t)(coupled) << 1 | (uint32_t)(momentum))
#define RUN(...) update_loop(u, first, first + count, (struct shape){__VA_ARGS__})
#define INSTANCE(adam, grad, out, coupled, momentum)        \
    case SHAPE(grad, out, coupled, momentum):               \
        if (stream && (out) != ZERO_F32)                    \
            RUN(grad, out, adam, coupled, momentum, true);  \
        else                                                \
            RUN(grad, out, adam, coupled, momentum, false); \
        break;

/* Vectors of halves go past the caches only to where they are aligned. */
LOOP bool streams(const struct zero__update *u, uint64_t first)
{
    return u->stream && ((uintptr_t)u->out + 2 * first) % (2 * WIDTH) == 0;
}

ISA static void adamw(const struct zero__update *u, uint64_t first, uint64_t count)
{
    const bool stream = streams(u, first);

    switch (SHAPE(u->grad_dtype, u->out_dtype, u->coupled, true)) {
#define CASE(grad, out) \
    INSTANCE(true, grad, out, false, true) INSTANCE(true, grad, out, true, true)
        SHAPES(CASE)
#undef CASE
    }
}

ISA static void sgd(const struct zero__update *u, uint64_t first, uint64_t count)
{
    const bool stream = streams(u, first);

    switch (SHAPE(u->grad_dtype, u->out_dtype, u->coupled, u->m != NULL)) {
#define CASE(grad, out)                      \
    INSTANCE(false, grad, out, false, false) \
    INSTANCE(false, grad, out, false, true)  \
    INSTANCE(false, grad, out, true, false) INSTANCE(false, grad, out, true, true)
        SHAPES(CASE)
#undef CASE
    }
}

#undef SHAPES
#undef SHAPE
#undef INSTANCE
#undef RUN

#endif
