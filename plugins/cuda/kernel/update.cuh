/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ADAMW and SGD in one pass: the gradient is unscaled and clipped, the moments and the master are
 * updated, the 16-bit copy is rounded, and every byte is read and written once. A thread asks for
 * two vectors of everything first: 8 elements, of which AdamW with a bf16 gradient reads 112 bytes,
 * so that 1,024 threads have far more under way than a memory needs (see stream.cuh); some 70
 * instructions an element, divisions and roots included, take a third of what a multiprocessor
 * computes meanwhile.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_UPDATE_CUH
#define ZERO_PLUGINS_CUDA_KERNEL_UPDATE_CUH

#include "stream.cuh"

/* Optimizers, as template parameters. */
struct adamw {};
struct sgd {};

template <class A, class B> struct is_same {
    static constexpr bool value = false;
};

template <class A> struct is_same<A, A> {
    static constexpr bool value = true;
};

/* What only the device knows: the step's factor, and for Adam 1 - beta^t. Squares and products of
 * both powers go side by side: each of them waits for its predecessor. */
template <bool ADAM>
ZERO__GPU zero__cuda_factors factors_of(const zero__cuda_update &q, const zero__cuda_run &run)
{
    const zero_scalars &s = *q.scalars;
    zero__cuda_factors f = {};

    f.factor = s.factor;
    f.skip = s.skip;
    f.first_step = s.step == 1;
    f.step = static_cast<uint32_t>(s.step);
    if (!ADAM)
        return f;
    double r1 = 1, r2 = 1, x1 = q.beta1, x2 = q.beta2;
    for (uint64_t n = s.step; n; n >>= 1) {
        if (n & 1) {
            r1 = multiply(r1, x1);
            r2 = multiply(r2, x2);
        }
        x1 = multiply(x1, x1);
        x2 = multiply(x2, x2);
    }
    f.unbias = narrow(divide(1.0, root(subtract(1.0, r2))));
    f.rate = narrow(-divide(static_cast<double>(run.lr), subtract(1.0, r1)));
    return f;
}

/* Through shared memory, from one thread to all. */
template <class Thread> ZERO__GPU void put_factors(Thread &t, const zero__cuda_factors &f)
{
    raw<sizeof f> r = to_raw(f);

    ZERO__UNROLL
    for (uint32_t i = 0; i < sizeof f / 4; i++)
        t.template put<4>(i * 4, raw<4>{{r.w[i]}});
}

template <class Thread> ZERO__GPU zero__cuda_factors get_factors(Thread &t)
{
    raw<sizeof(zero__cuda_factors)> r;

    ZERO__UNROLL
    for (uint32_t i = 0; i < sizeof(zero__cuda_factors) / 4; i++)
        r.w[i] = t.template get<4>(i * 4).w[0];
    return from_raw<zero__cuda_factors>(r);
}

/* The widths of gradient, master (2: halves, in out and low) and moments (0: none). */
template <class Optimizer, uint32_t GRAD, uint32_t MASTER, uint32_t MOMENTS> struct update_work {
    static constexpr bool is_adam = is_same<Optimizer, adamw>::value, halves = MASTER == 2;
    const zero__cuda_update &q;
    const zero__cuda_run &run;
    const zero__cuda_factors f;

    /* What a variant does not have takes no registers. */
    template <uint32_t N> struct state {
        raw<N * 4> p;
        raw<N * 2> out, low;
        raw<N * GRAD> grad;
        raw<N *(MOMENTS ? MOMENTS : 1)> m, v;
    };

    template <uint32_t N, class Thread>
    ZERO__GPU void load(Thread &t, uint64_t i, state<N> &s) const
    {
        s.grad = t.template load<N * GRAD>(at_byte(run.grad, i * GRAD));
        if constexpr (halves) {
            s.out = t.template load<N * 2>(at_byte(run.out, i * 2));
            s.low = t.template load<N * 2>(run.low + i);
        } else {
            s.p = t.template load<N * 4>(run.p + i);
        }
        if constexpr (MOMENTS != 0)
            s.m = t.template load<N * MOMENTS>(at_byte(run.m, i * MOMENTS));
        if constexpr (is_adam)
            s.v = t.template load<N * MOMENTS>(at_byte(run.v, i * MOMENTS));
    }

    template <uint32_t N, class Thread>
    ZERO__GPU void finish(Thread &t, uint64_t i, state<N> &s) const
    {
        float g[N], p[N], m[N], v[N];

        to_floats<GRAD>(s.grad, q.grad_dtype, g);
        if constexpr (halves)
            join(s, p);
        else
            to_floats<4>(s.p, ZERO_F32, p);
        if constexpr (MOMENTS != 0)
            to_floats<MOMENTS>(s.m, ZERO_BF16, m);
        if constexpr (is_adam)
            to_floats<MOMENTS>(s.v, ZERO_BF16, v);
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            update(g[k], p[k], m[k], v[k]);
        if constexpr (MOMENTS != 0)
            keep(s.m, run.first + i, 0, m);
        if constexpr (is_adam)
            keep(s.v, run.first + i, 16, v);
        if constexpr (halves)
            split(s, p);
        else
            from_floats<4>(s.p, ZERO_F32, p);
        from_floats<2>(s.out, halves ? static_cast<uint32_t>(ZERO_BF16) : q.out_dtype, p);
        if constexpr (MOMENTS != 0)
            t.template store<N * MOMENTS>(at_byte(run.m, i * MOMENTS), s.m);
        if constexpr (is_adam)
            t.template store<N * MOMENTS>(at_byte(run.v, i * MOMENTS), s.v);
        if constexpr (halves)
            t.template store<N * 2>(run.low + i, s.low);
        else
            t.template store<N * 4>(run.p + i, s.p);
        if (halves || run.out)
            t.template store<N * 2>(at_byte(run.out, i * 2), s.out);
    }

    /* One element: from its gradient, master and moments to the next ones. */
    ZERO__GPU void update(float g, float &p, float &m, float &v) const
    {
        g = multiply(g, f.factor);
        if (q.coupled)
            g = fused(run.weight_decay, p, g);
        else
            p = multiply(p, run.decay);
        if constexpr (is_adam) {
            m = fused(q.rest1, subtract(g, m), m);
            v = fused(v, q.beta2, multiply(multiply(q.rest2, g), g));
            p = fused(f.rate, divide(m, fused(root(v), f.unbias, q.eps)), p);
            return;
        }
        if constexpr (MOMENTS != 0) {
            m = f.first_step ? g : fused(q.momentum, m, multiply(q.undamped, g));
            g = q.nesterov ? fused(q.momentum, m, g) : m;
        }
        p = fused(-run.lr, g, p);
    }

    template <uint32_t N> ZERO__GPU static void join(const state<N> &s, float (&p)[N])
    {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            p[k] = zero_join_bf16(static_cast<uint16_t>(element<2>(s.out, k)),
                                  static_cast<uint16_t>(element<2>(s.low, k)));
    }

    /* The lower halves; the upper ones are the 16-bit copy. */
    template <uint32_t N> ZERO__GPU static void split(state<N> &s, const float (&p)[N])
    {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            set_element<2>(s.low, k, zero_low_half(p[k]));
    }

    /* Moments as they are kept, of the elements from `number` on: whole, or rounded at random with
     * the 16 bits from `shift` on. */
    template <uint32_t N, uint32_t BYTES>
    ZERO__GPU void keep(raw<BYTES> &r, uint64_t number, uint32_t shift, const float (&x)[N]) const
    {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++) {
            uint32_t bits = zero_bits_of_float(x[k]);
            if constexpr (MOMENTS == 2)
                bits = zero_bf16_rounded(
                    x[k], static_cast<uint16_t>(zero_rounding(number + k, f.step) >> shift));
            set_element<MOMENTS>(r, k, bits);
        }
    }
};

/* The run that a block is one of. */
template <class Thread>
ZERO__GPU const zero__cuda_run &run_of_block(const Thread &t, const zero__cuda_update &q)
{
    uint32_t i = 0;

    while (i + 1 < q.n && t.block() >= q.run[i + 1].first_block)
        i++;
    return q.run[i];
}

template <class Optimizer, uint32_t GRAD, uint32_t MASTER, uint32_t MOMENTS, class Thread>
ZERO__GPU void update_body(Thread &t, const zero__cuda_update &q)
{
    using work = update_work<Optimizer, GRAD, MASTER, MOMENTS>;
    const zero__cuda_run &run = run_of_block(t, q);

    if (t.index() == 0)
        put_factors(t, factors_of<work::is_adam>(q, run));
    t.barrier();
    const zero__cuda_factors f = get_factors(t);
    if (f.skip)
        return;
    pass<4, ZERO__CUDA_UPDATE_BATCH>(t, t.block() - run.first_block, run.blocks, run.span,
                                     work{q, run, f});
}

#endif
