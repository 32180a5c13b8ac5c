/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that pass over memory element by element: FILL, ACCUMULATE, CAST, and the sum of several
 * sources; and the pass itself, which the updates share.
 *
 * What limits them is memory, and a memory is kept busy by bytes on their way: an H100 moves 3.3
 * bytes a picosecond and answers after some 0.7 µs, so 2.3 MB have to be under way, 18 KB a
 * multiprocessor. A thread therefore asks for several vectors before it uses the first: with 1,024
 * threads on a multiprocessor (64 registers each) one load of 16 bytes a thread is 16 KB, four are
 * 64 KB, which leaves room for threads that compute or store. Neighbours in a warp read
 * neighbouring vectors, so every sector that is fetched is used whole.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_STREAM_CUH
#define ZERO_PLUGINS_CUDA_KERNEL_STREAM_CUH

#include "number.cuh"
#include "params.h"

ZERO__GPU const void *at_byte(const void *base, uint64_t bytes)
{
    return static_cast<const char *>(base) + bytes;
}

ZERO__GPU void *at_byte(void *base, uint64_t bytes)
{
    return static_cast<char *>(base) + bytes;
}

/*
 * Passes over a span. Work has state<N>, what is in registers of N neighbouring elements,
 * load<N>(t, i, state) for those from the i-th on, and finish<N>(t, i, state), which computes and
 * stores. Vectors have W elements; all loads of a batch of B vectors come before the first finish.
 * The thread's block is one of `blocks` that share the span.
 */
template <uint32_t W, uint32_t B, class Thread, class Work>
ZERO__GPU void pass(Thread &t, uint64_t block, uint64_t blocks, const zero__cuda_span &span,
                    const Work &work)
{
    const uint64_t stride = t.size(), tile = stride * B, head = span.head, groups = span.groups;

    for (uint64_t at = block * tile; at < groups; at += blocks * tile) {
        typename Work::template state<W> state[B];
        ZERO__UNROLL
        for (uint32_t b = 0; b < B; b++) {
            uint64_t g = at + b * stride + t.index();
            if (t.inside(g, groups))
                work.template load<W>(t, head + g * W, state[b]);
        }
        ZERO__UNROLL
        for (uint32_t b = 0; b < B; b++) {
            uint64_t g = at + b * stride + t.index();
            if (t.inside(g, groups))
                work.template finish<W>(t, head + g * W, state[b]);
        }
    }
    const uint64_t rest = span.count - groups * W;
    for (uint64_t k = block * stride + t.index(); t.inside(k, rest); k += blocks * stride) {
        typename Work::template state<1> state;
        uint64_t i = k < head ? k : k + groups * W;
        work.template load<1>(t, i, state);
        work.template finish<1>(t, i, state);
    }
}

/* All blocks of the grid share it. */
template <uint32_t W, uint32_t B, class Thread, class Work>
ZERO__GPU void pass(Thread &t, const zero__cuda_span &span, const Work &work)
{
    pass<W, B>(t, t.block(), t.blocks(), span, work);
}

/* Zeroes the runs of bytes of this launch, one in each row of the grid. */
template <class Thread> ZERO__GPU void fill_body(Thread &t, const zero__cuda_fill &q)
{
    const uint64_t bytes = q.run[t.row()].count, stride = t.size() * t.blocks();
    const uint64_t self = t.block() * t.size() + t.index();
    void *base = q.dst + q.run[t.row()].first;
    uint64_t head = -reinterpret_cast<uintptr_t>(base) & 15u;

    head = head < bytes ? head : bytes;
    const uint64_t vectors = (bytes - head) / 16, rest = bytes - vectors * 16;
    for (uint64_t i = self; t.inside(i, vectors); i += stride)
        t.template store<16>(at_byte(base, head + i * 16), raw<16>{});
    for (uint64_t i = self; t.inside(i, rest); i += stride)
        t.template store<1>(at_byte(base, i < head ? i : i + vectors * 16), raw<1>{});
}

/* acc = (beta ? acc : +0) + x */
template <uint32_t X> struct accumulate_work {
    const zero__cuda_accumulate &q;

    template <uint32_t N> struct state {
        raw<N * 4> acc;
        raw<N * X> x;
    };

    template <uint32_t N, class Thread>
    ZERO__GPU void load(Thread &t, uint64_t i, state<N> &s) const
    {
        s.x = t.template load<N * X>(at_byte(q.x, i * X));
        if (q.beta)
            s.acc = t.template load<N * 4>(q.acc + i);
        else
            s.acc = {};
    }

    template <uint32_t N, class Thread>
    ZERO__GPU void finish(Thread &t, uint64_t i, state<N> &s) const
    {
        float x[N];

        to_floats<X>(s.x, q.x_dtype, x);
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            s.acc.w[k] = zero_bits_of_float(add(zero_float_of_bits(s.acc.w[k]), x[k]));
        t.template store<N * 4>(q.acc + i, s.acc);
    }
};

template <uint32_t X, class Thread>
ZERO__GPU void accumulate_body(Thread &t, const zero__cuda_accumulate &q)
{
    pass<4, ZERO__CUDA_BATCH>(t, q.span, accumulate_work<X>{q});
}

/* dst = x, converted; equal types keep every bit, of NaNs too. */
template <uint32_t FROM, uint32_t TO> struct cast_work {
    const zero__cuda_cast &q;

    template <uint32_t N> struct state {
        raw<N * FROM> x;
    };

    template <uint32_t N, class Thread>
    ZERO__GPU void load(Thread &t, uint64_t i, state<N> &s) const
    {
        s.x = t.template load<N * FROM>(at_byte(q.x, i * FROM));
    }

    template <uint32_t N, class Thread>
    ZERO__GPU void finish(Thread &t, uint64_t i, const state<N> &s) const
    {
        float x[N];
        raw<N * TO> y;

        if constexpr (FROM == TO) {
            if (q.x_dtype == q.dst_dtype) {
                t.template store<N * TO>(at_byte(q.dst, i * TO), s.x);
                return;
            }
        }
        to_floats<FROM>(s.x, q.x_dtype, x);
        from_floats<TO>(y, q.dst_dtype, x);
        t.template store<N * TO>(at_byte(q.dst, i * TO), y);
    }
};

template <uint32_t FROM, uint32_t TO, class Thread>
ZERO__GPU void cast_body(Thread &t, const zero__cuda_cast &q)
{
    constexpr uint32_t wider = FROM > TO ? FROM : TO;
    pass<16 / wider, ZERO__CUDA_BATCH>(t, q.span, cast_work<FROM, TO>{q});
}

/* dst = (partial + x0 + x1 + …) * scale; sources come four at a time, which is the batch here. */
template <uint32_t FROM, uint32_t TO> struct sum_work {
    static constexpr uint32_t sources = 4;
    const zero__cuda_sum &q;

    template <uint32_t N> struct state {
        float sum[N] = {};
    };

    template <uint32_t N, class Thread>
    ZERO__GPU static void load_floats(Thread &t, const float *at, float *x)
    {
        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k += N < 4 ? N : 4) {
            raw<N < 4 ? N * 4 : 16> r = t.template load<N < 4 ? N * 4 : 16>(at + k);
            ZERO__UNROLL
            for (uint32_t j = 0; j < (N < 4 ? N : 4); j++)
                x[k + j] = zero_float_of_bits(r.w[j]);
        }
    }

    template <uint32_t N, class Thread>
    ZERO__GPU void load(Thread &t, uint64_t i, state<N> &s) const
    {
        bool begun = q.partial;

        if (begun)
            load_floats<N>(t, q.partial + i, s.sum);
        for (uint32_t first = 0; first < q.n; first += sources) {
            raw<N * FROM> x[sources];
            ZERO__UNROLL
            for (uint32_t j = 0; j < sources; j++)
                if (t.inside(first + j, q.n))
                    x[j] = t.template load<N * FROM>(at_byte(q.src[first + j], i * FROM));
            ZERO__UNROLL
            for (uint32_t j = 0; j < sources; j++) {
                if (!t.inside(first + j, q.n))
                    break;
                float a[N];
                to_floats<FROM>(x[j], q.src_dtype, a);
                ZERO__UNROLL
                for (uint32_t k = 0; k < N; k++)
                    s.sum[k] = begun ? add(s.sum[k], a[k]) : a[k]; /* -0 alone stays -0 */
                begun = true;
            }
        }
    }

    template <uint32_t N, class Thread>
    ZERO__GPU void finish(Thread &t, uint64_t i, state<N> &s) const
    {
        raw<N * TO> y;

        ZERO__UNROLL
        for (uint32_t k = 0; k < N; k++)
            s.sum[k] = multiply(s.sum[k], q.scale);
        if constexpr (TO == 4) {
            if (q.accumulate) {
                float old[N];
                load_floats<N>(t, static_cast<const float *>(q.dst) + i, old);
                ZERO__UNROLL
                for (uint32_t k = 0; k < N; k++)
                    s.sum[k] = add(s.sum[k], old[k]);
            }
        }
        ZERO__UNROLL
        /* Which NaN an addition of two gives depends on the machine, so there is only one. */
        for (uint32_t k = 0; k < N; k++)
            s.sum[k] = s.sum[k] == s.sum[k] ? s.sum[k] : zero_float_of_bits(0x7fc00000u);
        from_floats<TO>(y, q.dst_dtype, s.sum);
        t.template store<N * TO>(at_byte(q.dst, i * TO), y);
    }
};

template <uint32_t FROM, uint32_t TO, class Thread>
ZERO__GPU void sum_body(Thread &t, const zero__cuda_sum &q)
{
    constexpr uint32_t wider = FROM > TO ? FROM : TO;
    pass<16 / wider, 1>(t, q.span, sum_work<FROM, TO>{q});
}

#endif
