/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm, forward and backward. */
#ifndef GPT2_GPU_NORM_CUH
#define GPT2_GPU_NORM_CUH

#include "params.h"
#include "thread.cuh"
#include "tile.h"

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

#endif
