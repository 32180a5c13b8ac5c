/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention of fp32 with heads of D features, in tiles of shared memory: no matrix of scores
 * is ever in global memory. The forward pass goes over the keys with a running maximum and sum; the
 * backward pass computes the same probabilities again, once by queries and once by keys, so that
 * every gradient is added up by one thread in one order.
 *
 * A block has 128 threads, 16 groups of rows by 8 of columns. Products are sums in fp32. Rows of a
 * tile are D + 4 floats apart: aligned to vectors, and in different banks.
 */
#ifndef GPT2_GPU_ATTENTION_CUH
#define GPT2_GPU_ATTENTION_CUH

#include "params.h"
#include "thread.cuh"
#include "tile.h"

/* Which head of which sequence a block is at, and whose rows and columns a thread has. */
template <class Thread> struct place {
    uint64_t head, first_row; /* of the heads; of qkv and y, in rows */
    uint32_t y, x;

    GPT2_GPU place(Thread &t, const gpt2_gpu_attention &q)
        : head(t.row() % q.heads), first_row(t.row() / q.heads * q.seq), y(t.index() / 8),
          x(t.index() % 8)
    {
    }
};

/*
 * Brings `rows` rows of D features, from element `at` on and `stride` apart, to shared memory,
 * times scale; zeros behind the first `here`.
 */
template <uint32_t D, class Thread>
GPT2_GPU void stage(Thread &t, uint32_t to, uint32_t rows, const float *from, uint64_t at,
                    uint64_t stride, uint64_t here, float scale)
{
    for (uint32_t i = t.index(); i < rows * (D / 4); i += t.size()) {
        const uint32_t r = i / (D / 4), c = i % (D / 4) * 4;
        vec4 x = {};
        if (t.inside(r, here)) {
            x = t.template read<vec4>(from + at + r * stride + c);
            GPT2_UNROLL
            for (int k = 0; k < 4; k++)
                x.v[k] *= scale;
        }
        t.template put<vec4>(to + r * (D + 4) + c, x);
    }
}

/* Part 0, 1, 2 of qkv: `rows` queries, keys or values from the `first`-th of the sequence on. */
template <uint32_t D, class Thread>
GPT2_GPU void stage_part(Thread &t, const gpt2_gpu_attention &q, const place<Thread> &p,
                         uint32_t to, uint32_t rows, uint32_t part, uint64_t first, float scale)
{
    const uint64_t width = q.heads * D, column = part * width + p.head * D;

    stage<D>(t, to, rows, static_cast<const float *>(q.qkv),
             (p.first_row + first) * 3 * width + column, 3 * width, q.seq - first, scale);
}

template <uint32_t D, class Thread>
GPT2_GPU void stage_dy(Thread &t, const gpt2_gpu_attention &q, const place<Thread> &p, uint32_t to,
                       uint64_t first)
{
    const uint64_t width = q.heads * D;

    stage<D>(t, to, GPT2_SCORE_TILE, static_cast<const float *>(q.dy),
             (p.first_row + first) * width + p.head * D, width, q.seq - first, 1);
}

/* dots[i][j]: row R y + i of tile a times row x + 8 j of tile b. */
template <uint32_t R, uint32_t D, class Thread>
GPT2_GPU void tile_dots(Thread &t, const place<Thread> &p, uint32_t a, uint32_t b,
                        float (&dots)[R][4])
{
    GPT2_UNROLL
    for (uint32_t i = 0; i < R; i++)
        GPT2_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            dots[i][j] = 0;
    GPT2_UNROLL
    for (uint32_t k = 0; k < D; k += 4) {
        vec4 u[R], v[4];
        GPT2_UNROLL
        for (uint32_t i = 0; i < R; i++)
            u[i] = t.template get<vec4>(a + (R * p.y + i) * (D + 4) + k);
        GPT2_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            v[j] = t.template get<vec4>(b + (p.x + 8 * j) * (D + 4) + k);
        GPT2_UNROLL
        for (uint32_t i = 0; i < R; i++)
            GPT2_UNROLL
            for (uint32_t j = 0; j < 4; j++)
                GPT2_UNROLL
                for (uint32_t e = 0; e < 4; e++)
                    dots[i][j] += u[i].v[e] * v[j].v[e];
    }
}

/*
 * sum[i]: += row R y + i of the scores w times the rows of tile b, features 4 x + 32 g … + 3 of
 * them; total[i]: += the row's scores.
 */
template <uint32_t R, uint32_t D, class Thread>
GPT2_GPU void tile_mix(Thread &t, const place<Thread> &p, uint32_t w, uint32_t b,
                       vec4 (&sum)[R][D / 32], float (&total)[R])
{
    for (uint32_t j = 0; j < GPT2_SCORE_TILE; j += 4) {
        vec4 u[R];
        GPT2_UNROLL
        for (uint32_t i = 0; i < R; i++)
            u[i] = t.template get<vec4>(w + (R * p.y + i) * GPT2_SCORE_STRIDE + j);
        GPT2_UNROLL
        for (uint32_t e = 0; e < 4; e++) {
            GPT2_UNROLL
            for (uint32_t g = 0; g < D / 32; g++) {
                const vec4 v = t.template get<vec4>(b + (j + e) * (D + 4) + 4 * p.x + 32 * g);
                GPT2_UNROLL
                for (uint32_t i = 0; i < R; i++)
                    GPT2_UNROLL
                    for (uint32_t c = 0; c < 4; c++)
                        sum[i][g].v[c] += u[i].v[e] * v.v[c];
            }
            GPT2_UNROLL
            for (uint32_t i = 0; i < R; i++)
                total[i] += u[i].v[e];
        }
    }
}

/* Writes a row of the thread's sums, times factor, from element `at` on. */
template <uint32_t D, class Thread>
GPT2_GPU void store_row(Thread &t, const place<Thread> &p, float *to, uint64_t at,
                        const vec4 (&sum)[D / 32], float factor)
{
    GPT2_UNROLL
    for (uint32_t g = 0; g < D / 32; g++) {
        vec4 x = sum[g];
        GPT2_UNROLL
        for (uint32_t c = 0; c < 4; c++)
            x.v[c] *= factor;
        t.template write<vec4>(to + at + 4 * p.x + 32 * g, x);
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* What a thread knows of its four queries. */
template <uint32_t D> struct softmax_rows {
    float most[4], total[4];
    vec4 sum[4][D / 32];
};

/* Scores become probabilities relative to the maximum so far; what was added before follows it. */
template <uint32_t D, class Thread>
GPT2_GPU void softmax_tile(Thread &t, const place<Thread> &p, uint32_t scores_at, uint32_t most_at,
                           float (&s)[4][4], softmax_rows<D> &r)
{
    GPT2_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        t.template put<float>(most_at + (4 * p.y + i) * 8 + p.x,
                              fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3])));
    t.barrier();
    GPT2_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        float most = r.most[i];
        GPT2_UNROLL
        for (uint32_t k = 0; k < 8; k += 4) {
            const vec4 m = t.template get<vec4>(most_at + (4 * p.y + i) * 8 + k);
            most = fmaxf(most, fmaxf(fmaxf(m.v[0], m.v[1]), fmaxf(m.v[2], m.v[3])));
        }
        const float factor = expf(r.most[i] - most);
        r.most[i] = most;
        r.total[i] *= factor;
        GPT2_UNROLL
        for (uint32_t g = 0; g < D / 32; g++)
            GPT2_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                r.sum[i][g].v[c] *= factor;
        GPT2_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            t.template put<float>(scores_at + (4 * p.y + i) * GPT2_SCORE_STRIDE + p.x + 8 * j,
                                  expf(s[i][j] - most));
    }
    t.barrier();
}

template <uint32_t D, class Thread>
GPT2_GPU void attention_body(Thread &t, const gpt2_gpu_attention &q)
{
    constexpr uint32_t queries = 0, keys = GPT2_FEATURES(GPT2_FORWARD_TILE, D);
    constexpr uint32_t values = keys + GPT2_FEATURES(GPT2_SCORE_TILE, D);
    constexpr uint32_t scores = values + GPT2_FEATURES(GPT2_SCORE_TILE, D);
    constexpr uint32_t most = scores + GPT2_SCORES(GPT2_FORWARD_TILE);
    const place<Thread> p(t, q);
    /* The last queries see the most keys: they begin first. */
    const uint64_t first = (t.blocks() - 1 - t.block()) * GPT2_FORWARD_TILE;
    const uint64_t end = first + GPT2_FORWARD_TILE < q.seq ? first + GPT2_FORWARD_TILE : q.seq;
    float *const y = static_cast<float *>(q.y);
    softmax_rows<D> r = {};

    GPT2_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        r.most[i] = -INFINITY;
    stage_part<D>(t, q, p, queries, GPT2_FORWARD_TILE, 0, first, q.scale);
    for (uint64_t k = 0; k < end; k += GPT2_SCORE_TILE) {
        float s[4][4];
        t.barrier();
        stage_part<D>(t, q, p, keys, GPT2_SCORE_TILE, 1, k, 1);
        stage_part<D>(t, q, p, values, GPT2_SCORE_TILE, 2, k, 1);
        t.barrier();
        tile_dots<4, D>(t, p, queries, keys, s);
        GPT2_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            GPT2_UNROLL
            for (uint32_t j = 0; j < 4; j++)
                if (k + p.x + 8 * j > first + 4 * p.y + i)
                    s[i][j] = -INFINITY;
        softmax_tile<D>(t, p, scores, most, s, r);
        tile_mix<4, D>(t, p, scores, values, r.sum, r.total);
    }
    GPT2_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t query = first + 4 * p.y + i;
        if (!t.inside(query, q.seq))
            continue;
        const float inverse = 1 / r.total[i];
        store_row<D>(t, p, y, ((p.first_row + query) * q.heads + p.head) * D, r.sum[i], inverse);
        if (p.x == 0) {
            float *stat = q.stat + 2 * (t.row() * q.seq + query);
            t.template write<float>(stat, r.most[i]);
            t.template write<float>(stat + 1, inverse);
        }
    }
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* delta of one row of one head a thread. */
template <uint32_t D, class Thread>
GPT2_GPU void delta_body(Thread &t, const gpt2_gpu_attention &q)
{
    const uint64_t i = flat(t), query = i % q.seq, head = i / q.seq % q.heads;
    float sum = 0;

    if (!t.inside(i, q.batch * q.heads * q.seq))
        return;
    const uint64_t at = ((i / q.seq / q.heads * q.seq + query) * q.heads + head) * D;
    for (uint32_t c = 0; c < D; c += 4) {
        const vec4 y = load4(t, q.y, at + c, ZERO_F32), dy = load4(t, q.dy, at + c, ZERO_F32);
        GPT2_UNROLL
        for (int k = 0; k < 4; k++)
            sum += y.v[k] * dy.v[k];
    }
    t.template write<float>(q.delta + i, sum);
}

/* The gradients of 32 queries: over the keys up to theirs. */
template <uint32_t D, class Thread>
GPT2_GPU void attention_q_body(Thread &t, const gpt2_gpu_attention &q)
{
    constexpr uint32_t tile = GPT2_FEATURES(GPT2_SCORE_TILE, D);
    constexpr uint32_t queries = 0, dy = tile, keys = 2 * tile, values = 3 * tile;
    constexpr uint32_t scores = 4 * tile;
    const place<Thread> p(t, q);
    const uint64_t first = (t.blocks() - 1 - t.block()) * GPT2_SCORE_TILE, rows = t.row() * q.seq;
    float *const dqkv = static_cast<float *>(q.dqkv);
    float most[2] = {}, inverse[2] = {}, delta[2] = {}, total[2] = {};
    vec4 sum[2][D / 32] = {};

    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t query = first + 2 * p.y + i;
        if (!t.inside(query, q.seq))
            continue;
        most[i] = t.template read<float>(q.stat + 2 * (rows + query));
        inverse[i] = t.template read<float>(q.stat + 2 * (rows + query) + 1);
        delta[i] = t.template read<float>(q.delta + rows + query);
    }
    stage_part<D>(t, q, p, queries, GPT2_SCORE_TILE, 0, first, q.scale);
    stage_dy<D>(t, q, p, dy, first);
    for (uint64_t k = 0; k < first + GPT2_SCORE_TILE && k < q.seq; k += GPT2_SCORE_TILE) {
        float s[2][4], dp[2][4];
        t.barrier();
        stage_part<D>(t, q, p, keys, GPT2_SCORE_TILE, 1, k, 1);
        stage_part<D>(t, q, p, values, GPT2_SCORE_TILE, 2, k, 1);
        t.barrier();
        tile_dots<2, D>(t, p, queries, keys, s);
        tile_dots<2, D>(t, p, dy, values, dp);
        GPT2_UNROLL
        for (uint32_t i = 0; i < 2; i++)
            GPT2_UNROLL
            for (uint32_t j = 0; j < 4; j++) {
                const bool sees = k + p.x + 8 * j <= first + 2 * p.y + i;
                const float prob = sees ? expf(s[i][j] - most[i]) * inverse[i] : 0;
                t.template put<float>(scores + (2 * p.y + i) * GPT2_SCORE_STRIDE + p.x + 8 * j,
                                      prob * (dp[i][j] - delta[i]));
            }
        t.barrier();
        tile_mix<2, D>(t, p, scores, keys, sum, total);
    }
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t query = first + 2 * p.y + i;
        if (t.inside(query, q.seq))
            store_row<D>(t, p, dqkv, ((p.first_row + query) * 3 * q.heads + p.head) * D, sum[i],
                         q.scale);
    }
}

/* Maxima, 1/sums and deltas of the 32 queries from `first` on. */
template <class Thread>
GPT2_GPU void stage_rows(Thread &t, const gpt2_gpu_attention &q, uint32_t to, uint64_t first)
{
    const uint64_t at = t.row() * q.seq + first + t.index();
    float most = 0, inverse = 0, delta = 0;

    if (t.index() >= GPT2_SCORE_TILE)
        return;
    if (t.inside(first + t.index(), q.seq)) {
        most = t.template read<float>(q.stat + 2 * at);
        inverse = t.template read<float>(q.stat + 2 * at + 1);
        delta = t.template read<float>(q.delta + at);
    }
    t.template put<float>(to + t.index(), most);
    t.template put<float>(to + GPT2_SCORE_TILE + t.index(), inverse);
    t.template put<float>(to + 2 * GPT2_SCORE_TILE + t.index(), delta);
}

/* The gradients of 32 keys and values: over the queries from theirs on. */
template <uint32_t D, class Thread>
GPT2_GPU void attention_kv_body(Thread &t, const gpt2_gpu_attention &q)
{
    constexpr uint32_t tile = GPT2_FEATURES(GPT2_SCORE_TILE, D);
    constexpr uint32_t queries = 0, dy = tile, keys = 2 * tile, values = 3 * tile;
    constexpr uint32_t probs = 4 * tile, scores = probs + GPT2_SCORES(GPT2_SCORE_TILE);
    constexpr uint32_t numbers = scores + GPT2_SCORES(GPT2_SCORE_TILE);
    const place<Thread> p(t, q);
    const uint64_t first = t.block() * GPT2_SCORE_TILE;
    float *const dqkv = static_cast<float *>(q.dqkv);
    vec4 dk[2][D / 32] = {}, dv[2][D / 32] = {};
    float total[2] = {};

    stage_part<D>(t, q, p, keys, GPT2_SCORE_TILE, 1, first, 1);
    stage_part<D>(t, q, p, values, GPT2_SCORE_TILE, 2, first, 1);
    for (uint64_t at = first; at < q.seq; at += GPT2_SCORE_TILE) {
        float s[2][4], dp[2][4];
        t.barrier();
        stage_part<D>(t, q, p, queries, GPT2_SCORE_TILE, 0, at, q.scale);
        stage_dy<D>(t, q, p, dy, at);
        stage_rows(t, q, numbers, at);
        t.barrier();
        tile_dots<2, D>(t, p, keys, queries, s);
        tile_dots<2, D>(t, p, values, dy, dp);
        GPT2_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t c = p.x + 8 * j;
            const float most = t.template get<float>(numbers + c);
            const float inverse = t.template get<float>(numbers + GPT2_SCORE_TILE + c);
            const float delta = t.template get<float>(numbers + 2 * GPT2_SCORE_TILE + c);
            GPT2_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                const bool seen = at + c >= first + 2 * p.y + i;
                const float prob = seen ? expf(s[i][j] - most) * inverse : 0;
                const uint32_t to = (2 * p.y + i) * GPT2_SCORE_STRIDE + c;
                t.template put<float>(probs + to, prob);
                t.template put<float>(scores + to, prob * (dp[i][j] - delta));
            }
        }
        t.barrier();
        tile_mix<2, D>(t, p, probs, dy, dv, total);
        tile_mix<2, D>(t, p, scores, queries, dk, total);
    }
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t key = first + 2 * p.y + i;
        if (!t.inside(key, q.seq))
            continue;
        const uint64_t to = ((p.first_row + key) * 3 * q.heads + p.head) * D;
        store_row<D>(t, p, dqkv, to + q.heads * D, dk[i], 1);
        store_row<D>(t, p, dqkv, to + 2 * q.heads * D, dv[i], 1);
    }
}

#endif
