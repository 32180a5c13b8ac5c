/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings, layer norm, GELU, sums of columns: what layers.c is on the host. */
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

/* ---- Layer norm ------------------------------------------------------------------------------ */

/* What becomes of four elements. */
template <class Thread>
GPT2_GPU void norm_store(Thread &t, const gpt2_gpu_norm &q, uint64_t row, uint64_t column,
                         float mean, float inverse)
{
    const vec4 x = load4(t, q.x, row * q.width + column, ZERO_F32);
    const vec4 w = load4(t, q.w, column, q.dtype), b = load4(t, q.b, column, q.dtype);
    vec4 y;

    GPT2_UNROLL
    for (int k = 0; k < 4; k++)
        y.v[k] = (x.v[k] - mean) * inverse * w.v[k] + b.v[k];
    store4(t, q.y, row * q.width + column, q.dtype, y);
    if (q.kept)
        store4(t, q.kept, row * q.width + column, ZERO_F32, x);
    if (!q.next)
        return;
    const vec4 next_b = load4(t, q.next_b, column, q.dtype);
    GPT2_UNROLL
    for (int k = 0; k < 4; k++)
        y.v[k] = x.v[k] + next_b.v[k];
    store4(t, q.next, row * q.width + column, ZERO_F32, y);
}

/* A block for each row. */
template <class Thread> GPT2_GPU void norm_body(Thread &t, const gpt2_gpu_norm &q)
{
    const uint64_t row = t.block(), each = q.width / 4;
    const float n = static_cast<float>(q.width);
    float sum = 0, squares = 0;

    for (uint64_t c = t.index(); t.inside(c, each); c += t.size()) {
        const vec4 x = load4(t, q.x, row * q.width + c * 4, ZERO_F32);
        sum += (x.v[0] + x.v[1]) + (x.v[2] + x.v[3]);
    }
    const float mean = reduce<false>(t, sum) / n;
    for (uint64_t c = t.index(); t.inside(c, each); c += t.size()) {
        const vec4 x = load4(t, q.x, row * q.width + c * 4, ZERO_F32);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            squares += (x.v[k] - mean) * (x.v[k] - mean);
    }
    const float inverse = 1 / sqrtf(reduce<false>(t, squares) / n + 1e-5f);
    if (t.index() == 0) {
        t.template write<float>(q.stat + 2 * row, mean);
        t.template write<float>(q.stat + 2 * row + 1, inverse);
    }
    for (uint64_t c = t.index(); t.inside(c, each); c += t.size())
        norm_store(t, q, row, c * 4, mean, inverse);
}

template <class Thread> GPT2_GPU void norm_again_body(Thread &t, const gpt2_gpu_norm &q)
{
    const uint64_t i = flat(t), each = q.width / 4, row = i / each;

    if (!t.inside(i, q.rows * each))
        return;
    norm_store(t, q, row, i % each * 4, t.template read<float>(q.stat + 2 * row),
               t.template read<float>(q.stat + 2 * row + 1));
}

/*
 * Sums over the block of what each thread has, in one order: of a warp, then of the warps. The
 * place is used by every other call.
 */
template <uint32_t N, class Thread> GPT2_GPU void sum_all(Thread &t, uint32_t at, float (&x)[N])
{
    static_assert(N % 4 == 0, "groups of four");
    const uint32_t warp = t.index() / 32;

    GPT2_UNROLL
    for (uint32_t i = 0; i < N; i++)
        GPT2_UNROLL
        for (uint32_t mask = 16; mask; mask /= 2)
            x[i] += t.across(x[i], mask);
    GPT2_UNROLL
    for (uint32_t i = 0; i < N; i += 4)
        if (t.index() % 32 == 0)
            t.template put<vec4>(at + warp * N + i, vec4{{x[i], x[i + 1], x[i + 2], x[i + 3]}});
    t.barrier();
    GPT2_UNROLL
    for (uint32_t i = 0; i < N; i++)
        x[i] = 0;
    for (uint32_t w = 0; w < t.size() / 32; w++)
        GPT2_UNROLL
        for (uint32_t i = 0; i < N; i += 4) {
            const vec4 y = t.template get<vec4>(at + w * N + i);
            GPT2_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                x[i + k] += y.v[k];
        }
}

/* A block for GPT2_NORM_CHUNK rows, a thread for four columns of all of them. DTYPE: of dy. */
template <uint32_t DTYPE, class Thread>
GPT2_GPU void norm_backward(Thread &t, const gpt2_gpu_norm_backward &q)
{
    constexpr uint32_t batch = GPT2_NORM_BATCH;
    const uint64_t c = uint64_t{t.index()} * 4, first = t.block() * GPT2_NORM_CHUNK;
    const float n = static_cast<float>(q.width);
    const bool here = t.inside(t.index(), q.width / 4);
    vec4 w = {}, dw = {}, db = {};

    if (here)
        w = load4(t, q.w, c, q.dtype);
    GPT2_NO_UNROLL /* more blocks at once bring more than longer ones */
    for (uint32_t i = 0; i < GPT2_NORM_CHUNK; i += batch) {
        vec4 x[batch] = {}, g[batch], dx[batch] = {};
        raw4<DTYPE> dy[batch] = {};
        vec2 stat[batch] = {};
        float sums[GPT2_NORM_SUMS] = {};
        GPT2_UNROLL
        for (uint32_t j = 0; j < batch; j++) {
            const uint64_t row = first + i + j, at = row * q.width + c;
            if (!here || !t.inside(row, q.rows))
                continue;
            x[j] = load4(t, q.x, at, ZERO_F32);
            dy[j] = fetch4<DTYPE>(t, q.dy, at);
            stat[j] = t.template read<vec2>(q.stat + 2 * row);
            if (q.beta != 0)
                dx[j] = load4(t, q.dx, at, ZERO_F32);
        }
        GPT2_UNROLL
        for (uint32_t j = 0; j < batch; j++) {
            g[j] = floats4<DTYPE>(dy[j]);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++) {
                x[j].v[k] = (x[j].v[k] - stat[j].v[0]) * stat[j].v[1];
                dw.v[k] += g[j].v[k] * x[j].v[k];
                db.v[k] += g[j].v[k];
                g[j].v[k] *= w.v[k];
                sums[2 * j] += g[j].v[k];
                sums[2 * j + 1] += g[j].v[k] * x[j].v[k];
            }
        }
        sum_all(t, i / batch % 2 * (GPT2_NORM_SHARED / 2), sums);
        GPT2_UNROLL
        for (uint32_t j = 0; j < batch; j++) {
            const uint64_t row = first + i + j;
            const float mean = sums[2 * j] / n, dot = sums[2 * j + 1] / n;
            if (!here || !t.inside(row, q.rows))
                continue;
            GPT2_UNROLL
            for (int k = 0; k < 4; k++)
                dx[j].v[k] += (g[j].v[k] - mean - x[j].v[k] * dot) * stat[j].v[1];
            store4(t, q.dx, row * q.width + c, ZERO_F32, dx[j]);
        }
    }
    if (!here)
        return;
    store4(t, q.partial, t.block() * 2 * q.width + c, ZERO_F32, dw);
    store4(t, q.partial, (t.block() * 2 + 1) * q.width + c, ZERO_F32, db);
}

template <class Thread> GPT2_GPU void norm_backward_body(Thread &t, const gpt2_gpu_norm_backward &q)
{
    GPT2_OF_DTYPE(norm_backward, q.dy_dtype, t, q);
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
