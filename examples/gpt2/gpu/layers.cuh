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

/* normed x, and w times dy, of four elements. */
template <class Thread>
GPT2_GPU void norm_parts(Thread &t, const gpt2_gpu_norm_rows &q, uint64_t row, uint64_t column,
                         float mean, float inverse, vec4 &normed, vec4 &g)
{
    const uint64_t at = row * q.width + column;
    const vec4 x = load4(t, q.x, at, ZERO_F32), dy = load4(t, q.dy, at, q.dy_dtype);
    const vec4 w = load4(t, q.w, column, q.dtype);

    GPT2_UNROLL
    for (int k = 0; k < 4; k++) {
        normed.v[k] = (x.v[k] - mean) * inverse;
        g.v[k] = w.v[k] * dy.v[k];
    }
}

/* A block for each row. */
template <class Thread> GPT2_GPU void norm_rows_body(Thread &t, const gpt2_gpu_norm_rows &q)
{
    const uint64_t row = t.block(), each = q.width / 4;
    const float mean = t.template read<float>(q.stat + 2 * row);
    const float inverse = t.template read<float>(q.stat + 2 * row + 1);
    float sum = 0, dot = 0;
    vec4 normed, g;

    for (uint64_t c = t.index(); t.inside(c, each); c += t.size()) {
        norm_parts(t, q, row, c * 4, mean, inverse, normed, g);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++) {
            sum += g.v[k];
            dot += g.v[k] * normed.v[k];
        }
    }
    const float m1 = reduce<false>(t, sum) / static_cast<float>(q.width);
    const float m2 = reduce<false>(t, dot) / static_cast<float>(q.width);
    for (uint64_t c = t.index(); t.inside(c, each); c += t.size()) {
        norm_parts(t, q, row, c * 4, mean, inverse, normed, g);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            g.v[k] = (g.v[k] - m1 - normed.v[k] * m2) * inverse;
        add4(t, q.dx, row * q.width + c * 4, ZERO_F32, q.beta, g);
    }
}

/* ---- Sums of columns: chunks of rows, then the chunks ---------------------------------------- */

/*
 * A block has GPT2_FOLD_COLUMNS groups of four columns; GPT2_FOLD_LANES threads, each in a warp of
 * its own, share the rows of a group, and the first of them adds up what they have, in order.
 */
struct fold_place {
    uint32_t lane;
    uint64_t column;
};

template <class Thread> GPT2_GPU fold_place fold_place_of(const Thread &t)
{
    return {t.index() / GPT2_FOLD_COLUMNS,
            t.block() * GPT2_FOLD_COLUMNS + t.index() % GPT2_FOLD_COLUMNS};
}

template <class Thread> GPT2_GPU void put_lane(Thread &t, uint32_t at, const vec4 &sum)
{
    t.template put<vec4>(at + t.index() * 4, sum);
}

template <class Thread> GPT2_GPU vec4 sum_of_lanes(Thread &t, uint32_t at)
{
    vec4 sum = {};

    GPT2_UNROLL
    for (uint32_t lane = 0; lane < GPT2_FOLD_LANES; lane++) {
        const vec4 x = t.template get<vec4>(at + (lane * GPT2_FOLD_COLUMNS + t.index()) * 4);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            sum.v[k] += x.v[k];
    }
    return sum;
}

/* The chunk of rows is the grid's second dimension. */
template <class Thread> GPT2_GPU void columns_body(Thread &t, const gpt2_gpu_columns &q)
{
    const fold_place p = fold_place_of(t);
    const uint64_t c = p.column, first = static_cast<uint64_t>(t.row()) * GPT2_CHUNK + p.lane;
    const bool here = t.inside(c, q.columns / 4);
    vec4 sum = {}, scaled = {};

    GPT2_UNROLL
    for (uint32_t i = 0; i < GPT2_CHUNK; i += GPT2_FOLD_LANES * GPT2_FOLD_BATCH) {
        vec4 dy[GPT2_FOLD_BATCH] = {}, x[GPT2_FOLD_BATCH] = {};
        vec2 stat[GPT2_FOLD_BATCH] = {};
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * GPT2_FOLD_LANES;
            if (!here || !t.inside(r, q.rows))
                continue;
            dy[j] = load4(t, q.dy, r * q.columns + c * 4, q.dy_dtype);
            if (q.x) {
                x[j] = load4(t, q.x, r * q.columns + c * 4, ZERO_F32);
                stat[j] = t.template read<vec2>(q.stat + 2 * r);
            }
        }
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * GPT2_FOLD_LANES;
            if (q.rounded && here && t.inside(r, q.rows))
                store4(t, q.rounded, r * q.columns + c * 4, q.dtype, dy[j]);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++) {
                sum.v[k] += dy[j].v[k];
                scaled.v[k] += dy[j].v[k] * ((x[j].v[k] - stat[j].v[0]) * stat[j].v[1]);
            }
        }
    }
    put_lane(t, 0, sum);
    put_lane(t, GPT2_FOLD_SHARED, scaled);
    t.barrier();
    if (p.lane != 0 || !here)
        return;
    const uint64_t at = t.row() * (q.x ? 2 : 1) * q.columns + c * 4;
    if (q.x)
        store4(t, q.partial, at, ZERO_F32, sum_of_lanes(t, GPT2_FOLD_SHARED));
    store4(t, q.partial, at + (q.x ? q.columns : 0), ZERO_F32, sum_of_lanes(t, 0));
}

/* The gradient is the grid's second dimension. */
template <class Thread> GPT2_GPU void fold_body(Thread &t, const gpt2_gpu_fold &q)
{
    const fold_place p = fold_place_of(t);
    const uint64_t c = p.column;
    const uint32_t which = t.row();
    const bool here = t.inside(c, q.columns / 4);
    vec4 sum = {};

    GPT2_UNROLL_SOME
    for (uint64_t i = p.lane; i < q.chunks; i += GPT2_FOLD_LANES) {
        if (!here)
            continue;
        const vec4 x = load4(t, q.partial, (i * q.n + which) * q.columns + c * 4, ZERO_F32);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            sum.v[k] += x.v[k];
    }
    put_lane(t, 0, sum);
    t.barrier();
    if (p.lane == 0 && here)
        add4(t, which ? q.gradient[1] : q.gradient[0], c * 4, q.dtype,
             which ? q.beta[1] : q.beta[0], sum_of_lanes(t, 0));
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

template <class Thread> GPT2_GPU void gelu_body(Thread &t, const gpt2_gpu_gelu &q)
{
    const uint64_t i = flat(t), each = q.width / 4;
    vec4 y, slope;

    if (!t.inside(i, q.rows * each))
        return;
    gelu_of(load4(t, q.x, i * 4, q.dtype), load4(t, q.b, i % each * 4, q.dtype), y, slope);
    store4(t, q.y, i * 4, q.dtype, y);
}

/* The chunk of rows is the grid's second dimension. */
template <class Thread> GPT2_GPU void gelu_backward_body(Thread &t, const gpt2_gpu_gelu_backward &q)
{
    const fold_place p = fold_place_of(t);
    const uint64_t c = p.column, first = static_cast<uint64_t>(t.row()) * GPT2_CHUNK + p.lane;
    const bool here = t.inside(c, q.columns / 4);
    vec4 sum = {}, b = {};

    if (here)
        b = load4(t, q.b, c * 4, q.dtype);
    GPT2_UNROLL
    for (uint32_t i = 0; i < GPT2_CHUNK; i += GPT2_FOLD_LANES * GPT2_FOLD_BATCH) {
        vec4 dy[GPT2_FOLD_BATCH], x[GPT2_FOLD_BATCH];
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * GPT2_FOLD_LANES;
            if (!here || !t.inside(r, q.rows))
                continue;
            dy[j] = load4(t, q.dy, r * q.columns + c * 4, q.dtype);
            x[j] = load4(t, q.x, r * q.columns + c * 4, q.dtype);
        }
        GPT2_UNROLL
        for (uint32_t j = 0; j < GPT2_FOLD_BATCH; j++) {
            const uint64_t r = first + i + j * GPT2_FOLD_LANES;
            vec4 y, slope;
            if (!here || !t.inside(r, q.rows))
                continue;
            gelu_of(x[j], b, y, slope);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++) {
                dy[j].v[k] *= slope.v[k];
                sum.v[k] += dy[j].v[k];
            }
            store4(t, q.y, r * q.columns + c * 4, q.dtype, y);
            store4(t, q.dy, r * q.columns + c * 4, q.dtype, dy[j]);
        }
    }
    put_lane(t, 0, sum);
    t.barrier();
    if (p.lane == 0 && here)
        store4(t, q.partial, t.row() * q.columns + c * 4, ZERO_F32, sum_of_lanes(t, 0));
}

#endif
