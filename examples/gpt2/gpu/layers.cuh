/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings, GELU, sums of columns: what layers.c is on the host, but for norm.cuh. */
#ifndef GPT2_GPU_LAYERS_CUH
#define GPT2_GPU_LAYERS_CUH

#include "params.h"
#include "thread.cuh"
#include "tile.h"

/* ---- Embeddings ------------------------------------------------------------------------------ */

template <class Thread> GPT2_GPU void embed_body(Thread &t, const gpt2_gpu_embed &q)
{
    const uint64_t i = flat(t), each = q.width / 4;

    if (!t.inside(i, q.rows * each))
        return;
    const uint64_t row = i / each, column = i % each * 4;
    const uint64_t token = static_cast<uint64_t>(t.template read<int32_t>(q.tokens + row));
    store4(t, q.x, i * 4, ZERO_F32, load4(t, q.w, token * q.width + column, q.dtype));
}

template <class Thread> GPT2_GPU void position_body(Thread &t, const gpt2_gpu_position &q)
{
    const uint64_t i = flat(t), each = q.width / 4;

    if (!t.inside(i, q.rows * each))
        return;
    const uint64_t at = i / each % q.seq * q.width + i % each * 4;
    add4(t, q.x, i * 4, ZERO_F32, 1, load4(t, q.w, at, q.dtype));
}

/* A block for each row of the vocabulary; most of them have nothing to do. */
template <class Thread>
GPT2_GPU void embed_backward_body(Thread &t, const gpt2_gpu_embed_backward &q)
{
    const uint64_t v = t.block();
    const int32_t from = t.template read<int32_t>(q.start + v);
    const int32_t to = t.template read<int32_t>(q.start + v + 1);

    if (from == to && q.beta != 0)
        return;
    for (uint64_t c = t.index(); t.inside(c, q.width / 4); c += t.size()) {
        vec4 sum = {};
        GPT2_UNROLL_SOME
        for (int32_t i = from; i < to; i++) {
            const uint64_t row = static_cast<uint64_t>(t.template read<int32_t>(q.order + i));
            const vec4 x = load4(t, q.dx, row * q.width + c * 4, ZERO_F32);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++)
                sum.v[k] += x.v[k];
        }
        add4(t, q.gradient, v * q.width + c * 4, q.dtype, q.beta, sum);
    }
}

template <class Thread>
GPT2_GPU void position_backward_body(Thread &t, const gpt2_gpu_position_backward &q)
{
    const uint64_t i = flat(t), each = q.width / 4;

    if (!t.inside(i, q.context * each) || (i / each >= q.seq && q.beta != 0))
        return;
    vec4 sum = {};
    for (uint64_t b = 0; b < q.batch && i / each < q.seq; b++) {
        const vec4 x = load4(t, q.dx, b * q.seq * q.width + i * 4, ZERO_F32);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            sum.v[k] += x.v[k];
    }
    add4(t, q.gradient, i * 4, q.dtype, q.beta, sum);
}

/* ---- Sums of columns: chunks of rows, then the chunks ---------------------------------------- */

/*
 * A block has COLUMNS groups of four columns; the other threads of a group share its rows, and the
 * first of them adds up what they have, in order.
 */
template <uint32_t COLUMNS> struct fold_place {
    static constexpr uint32_t lanes = GPT2_FOLD_THREADS / COLUMNS;
    uint32_t lane;
    uint64_t column;

    template <class Thread>
    GPT2_GPU explicit fold_place(const Thread &t)
        : lane(t.index() / COLUMNS), column(t.block() * COLUMNS + t.index() % COLUMNS)
    {
    }

    /* For lane 0. */
    template <class Thread> GPT2_GPU static vec4 sum_of_lanes(Thread &t, const vec4 &own)
    {
        vec4 sum = {};

        t.template put<vec4>(t.index() * 4, own);
        t.barrier();
        if (t.index() >= COLUMNS)
            return sum;
        GPT2_UNROLL
        for (uint32_t i = 0; i < lanes; i++) {
            const vec4 x = t.template get<vec4>((i * COLUMNS + t.index()) * 4);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++)
                sum.v[k] += x.v[k];
        }
        return sum;
    }
};

using chunk_place = fold_place<GPT2_FOLD_COLUMNS>;

/* The chunk of rows is the grid's second dimension. DTYPE: of dy. */
template <uint32_t DTYPE, class Thread> GPT2_GPU void columns(Thread &t, const gpt2_gpu_columns &q)
{
    const chunk_place p(t);
    const uint64_t c = p.column, first = static_cast<uint64_t>(t.row()) * GPT2_CHUNK + p.lane;
    const bool here = t.inside(c, q.columns / 4);
    vec4 sum = {};

    GPT2_UNROLL
    for (uint32_t i = 0; i < GPT2_CHUNK; i += p.lanes * GPT2_FOLD_BATCH) {
        raw4<DTYPE> dy[GPT2_FOLD_BATCH] = {};
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * p.lanes;
            if (here && t.inside(r, q.rows))
                dy[j] = fetch4<DTYPE>(t, q.dy, r * q.columns + c * 4);
        }
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * p.lanes;
            const vec4 x = floats4<DTYPE>(dy[j]);
            if (q.rounded && here && t.inside(r, q.rows))
                store4(t, q.rounded, r * q.columns + c * 4, q.dtype, x);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++)
                sum.v[k] += x.v[k];
        }
    }
    sum = p.sum_of_lanes(t, sum);
    if (p.lane == 0 && here)
        store4(t, q.partial, t.row() * q.columns + c * 4, ZERO_F32, sum);
}

template <class Thread> GPT2_GPU void columns_body(Thread &t, const gpt2_gpu_columns &q)
{
    GPT2_OF_DTYPE(columns, q.dy_dtype, t, q);
}

/* The gradient is the grid's second dimension. */
template <class Thread> GPT2_GPU void fold_body(Thread &t, const gpt2_gpu_fold &q)
{
    const fold_place<GPT2_LAST_COLUMNS> p(t);
    const uint64_t c = p.column;
    const uint32_t which = t.row();
    const bool here = t.inside(c, q.columns / 4);
    vec4 sum = {};

    for (uint64_t i = 0; i < q.chunks; i += p.lanes * GPT2_LAST_BATCH) {
        vec4 x[GPT2_LAST_BATCH] = {};
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_LAST_BATCH; j++) {
            const uint64_t chunk = i + j * p.lanes + p.lane;
            if (here && t.inside(chunk, q.chunks))
                x[j] = load4(t, q.partial, (chunk * q.n + which) * q.columns + c * 4, ZERO_F32);
        }
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_LAST_BATCH; j++)
            GPT2_UNROLL
            for (int k = 0; k < 4; k++)
                sum.v[k] += x[j].v[k];
    }
    sum = p.sum_of_lanes(t, sum);
    if (p.lane == 0 && here)
        add4(t, which ? q.gradient[1] : q.gradient[0], c * 4, q.dtype,
             which ? q.beta[1] : q.beta[0], sum);
}

/* ---- Element by element ---------------------------------------------------------------------- */

template <class Thread> GPT2_GPU void bias_body(Thread &t, const gpt2_gpu_bias &q)
{
    const uint64_t i = flat(t), each = q.width / 4;

    if (t.inside(i, q.rows * each))
        store4(t, q.y, i * 4, q.dtype, load4(t, q.b, i % each * 4, q.dtype));
}

/* x (1 + tanh u) / 2 is x / (1 + exp(-2u)), as on the host; y and its derivative. */
GPT2_GPU void gelu_of(vec4 x, const vec4 &b, vec4 &y, vec4 &slope)
{
    GPT2_UNROLL
    for (int k = 0; k < 4; k++) {
        const float a = 0.79788456080286536f, c = 0.044715f, z = x.v[k] + b.v[k];
        const float s = inverse_of(1 + exp2_of(-2 * GPT2_LOG2_E * a * (z + c * z * z * z)));
        y.v[k] = z * s;
        slope.v[k] = s + 2 * z * s * (1 - s) * (a * (1 + 3 * c * z * z));
    }
}

/* Two groups of four a thread, both on their way at once. */
template <uint32_t DTYPE, class Thread> GPT2_GPU void gelu(Thread &t, const gpt2_gpu_gelu &q)
{
    const uint64_t first = t.block() * 2 * t.size() + t.index(), each = q.width / 4;
    raw4<DTYPE> x[2] = {};

    GPT2_UNROLL
    for (uint32_t j = 0; j < 2; j++)
        if (t.inside(first + j * t.size(), q.rows * each))
            x[j] = fetch4<DTYPE>(t, q.x, (first + j * t.size()) * 4);
    GPT2_UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint64_t i = first + j * t.size();
        vec4 y, slope;
        if (!t.inside(i, q.rows * each))
            continue;
        gelu_of(floats4<DTYPE>(x[j]), load4(t, q.b, i % each * 4, DTYPE), y, slope);
        store4(t, q.y, i * 4, DTYPE, y);
    }
}

template <class Thread> GPT2_GPU void gelu_body(Thread &t, const gpt2_gpu_gelu &q)
{
    GPT2_OF_DTYPE(gelu, q.dtype, t, q);
}

/* The chunk of rows is the grid's second dimension. */
template <uint32_t DTYPE, class Thread>
GPT2_GPU void gelu_backward(Thread &t, const gpt2_gpu_gelu_backward &q)
{
    const chunk_place p(t);
    const uint64_t c = p.column, first = static_cast<uint64_t>(t.row()) * GPT2_CHUNK + p.lane;
    const bool here = t.inside(c, q.columns / 4);
    vec4 sum = {}, b = {};

    if (here)
        b = load4(t, q.b, c * 4, DTYPE);
    GPT2_UNROLL
    for (uint32_t i = 0; i < GPT2_CHUNK; i += p.lanes * GPT2_FOLD_BATCH) {
        raw4<DTYPE> dy[GPT2_FOLD_BATCH] = {}, x[GPT2_FOLD_BATCH] = {};
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * p.lanes;
            if (!here || !t.inside(r, q.rows))
                continue;
            dy[j] = fetch4<DTYPE>(t, q.dy, r * q.columns + c * 4);
            x[j] = fetch4<DTYPE>(t, q.x, r * q.columns + c * 4);
        }
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * p.lanes;
            vec4 y, slope, dx = floats4<DTYPE>(dy[j]);
            if (!here || !t.inside(r, q.rows))
                continue;
            gelu_of(floats4<DTYPE>(x[j]), b, y, slope);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++) {
                dx.v[k] *= slope.v[k];
                sum.v[k] += dx.v[k];
            }
            store4(t, q.y, r * q.columns + c * 4, DTYPE, y);
            store4(t, q.dy, r * q.columns + c * 4, DTYPE, dx);
        }
    }
    sum = p.sum_of_lanes(t, sum);
    if (p.lane == 0 && here)
        store4(t, q.partial, t.row() * q.columns + c * 4, ZERO_F32, sum);
}

template <class Thread>
GPT2_GPU void gelu_backward_body(Thread &t, const gpt2_gpu_gelu_backward &q)
{
    GPT2_OF_DTYPE(gelu_backward, q.dtype, t, q);
}

#endif
