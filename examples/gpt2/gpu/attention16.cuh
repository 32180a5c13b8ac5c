/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention of 16-bit elements, as attention.cuh has it of fp32, with the products by the
 * units for matrices of 16 × 16: sums in fp32, probabilities and the gradients of scores rounded to
 * 16 bits before they are multiplied (the tiles and the running softmax: Dao, FlashAttention-2,
 * 2023, section 3).
 *
 * A block has 64 rows, queries or keys, 16 for each of its warps; they stay in registers. The rows
 * of the other side come in tiles of 64 to shared memory, two buffers in turn. A thread's numbers
 * of a product lie as the next product wants its left-hand side, so scores never leave registers.
 */
#ifndef GPT2_GPU_ATTENTION16_CUH
#define GPT2_GPU_ATTENTION16_CUH

#include "tile16.cuh"

/* ---- Forward --------------------------------------------------------------------------------- */

/* What a thread knows of its two queries; most is of the scores before they are scaled. */
template <uint32_t D> struct softmax16 {
    float most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    float sum[D / 8][4] = {};
};

/* Scores become probabilities relative to the maximum so far; what was added before follows it. */
template <uint32_t D, class Thread>
GPT2_GPU void softmax_tile16(Thread &t, float scale, float (&s)[4][2][4], softmax16<D> &r)
{
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        float most = r.most[i], total = 0;
        GPT2_UNROLL
        for (uint32_t j = 0; j < 8; j++)
            most = fmaxf(most, fmaxf(s[j / 2][j % 2][2 * i], s[j / 2][j % 2][2 * i + 1]));
        most = fmaxf(most, t.across(most, 1));
        most = fmaxf(most, t.across(most, 2));
        const float factor = exp2_of((r.most[i] - most) * scale), less = -most * scale;
        GPT2_UNROLL
        for (uint32_t j = 0; j < 16; j++) {
            float &x = s[j / 4][j / 2 % 2][2 * i + j % 2];
            x = exp2_of(fmaf(x, scale, less));
            total += x;
        }
        r.most[i] = most;
        r.total[i] = r.total[i] * factor + total;
        GPT2_UNROLL
        for (uint32_t k = 0; k < D / 8; k++) {
            r.sum[k][2 * i] *= factor;
            r.sum[k][2 * i + 1] *= factor;
        }
    }
}

/* Of the last tile each warp sees one block of 16 keys more than the warp before it. */
template <bool LAST, uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void attention16_tile(Thread &t, const place16<D, Thread> &p,
                               const uint32_t (&queries)[D / 16][4], float scale, uint32_t keys,
                               uint32_t values, softmax16<D> &r)
{
    constexpr uint32_t rows16 = 16 * GPT2_HALF_STRIDE(D);
    float s[4][2][4];

    GPT2_UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        if (!LAST || c <= p.warp)
            dots16<D, DTYPE>(t, queries, keys + c * rows16, s[c]);
        GPT2_UNROLL
        for (uint32_t j = 0; LAST && j < 8; j++)
            if (16 * c + j / 4 * 8 + p.x + j % 2 > 16 * p.warp + p.y + j / 2 % 2 * 8)
                s[c][j / 4][j % 4] = -INFINITY;
    }
    softmax_tile16<D>(t, scale, s, r);
    GPT2_UNROLL
    for (uint32_t c = 0; c < 4; c++)
        if (!LAST || c <= p.warp)
            mix16<D, DTYPE>(t, s[c], values + c * rows16, r.sum);
}

template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void attention16(Thread &t, const gpt2_gpu_attention &q)
{
    constexpr uint32_t tile = GPT2_HALF_FEATURES(D);
    const place16<D, Thread> p(t, q);
    const uint64_t first = last_tile(q.seq) - t.row() * GPT2_HALF_TILE, stride = 3 * p.width;
    const uint16_t *keys = element(q.qkv, p.part(1)), *values = element(q.qkv, p.part(2));
    const float scale = q.scale * GPT2_LOG2_E;
    uint32_t queries[D / 16][4];
    softmax16<D> r;

    bring_tile<D>(t, 0, keys, stride, q.seq);
    bring_tile<D>(t, tile, values, stride, q.seq);
    left_rows<D>(t, p, element(q.qkv, p.part(0)), stride, first, q.seq, queries);
    for (uint64_t k = 0; k <= first; k += GPT2_HALF_TILE) {
        const uint32_t here = k / GPT2_HALF_TILE % 2 * 2 * tile, next = 2 * tile - here;
        t.brought();
        t.barrier();
        if (k == first) {
            attention16_tile<true, D, DTYPE>(t, p, queries, scale, here, here + tile, r);
            break;
        }
        const uint64_t then = k + GPT2_HALF_TILE;
        bring_tile<D>(t, next, keys + then * stride, stride, q.seq - then);
        bring_tile<D>(t, next + tile, values + then * stride, stride, q.seq - then);
        attention16_tile<false, D, DTYPE>(t, p, queries, scale, here, here + tile, r);
    }
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t query = first + p.warp * 16 + p.y + 8 * i;
        r.total[i] += t.across(r.total[i], 1);
        r.total[i] += t.across(r.total[i], 2);
        if (!t.inside(query, q.seq))
            continue;
        const float inverse = 1 / r.total[i];
        uint16_t *y = static_cast<uint16_t *>(q.y) + p.features() + query * p.width;
        store_row16<D, DTYPE>(t, p, y, i, r.sum, inverse);
        if (p.x == 0)
            t.template write<vec2>(q.stat + 2 * (t.block() * q.seq + query),
                                   vec2{{r.most[i] * q.scale, inverse}});
    }
}

template <uint32_t D, class Thread>
GPT2_GPU void attention16_body(Thread &t, const gpt2_gpu_attention &q)
{
    if (q.dtype == ZERO_BF16)
        attention16<D, ZERO_BF16>(t, q);
    else
        attention16<D, ZERO_F16>(t, q);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* The probability of score s, from what the forward pass kept of its query. */
GPT2_GPU float probability16(float s, float scale, float most, float inverse)
{
    return exp2_of(fmaf(s, scale, -most * GPT2_LOG2_E)) * inverse;
}

/* One of the two elements of a word. */
template <uint32_t DTYPE> GPT2_GPU float half_of(uint32_t both, uint32_t which)
{
    return float_from_half(static_cast<uint16_t>(both >> 16 * which), DTYPE);
}

/* What a thread knows of its two queries in the backward pass, and the gradient's sum. */
template <uint32_t D> struct queries16 {
    uint32_t rows[D / 16][4], dy[D / 16][4];
    vec2 stat[2] = {}; /* maximum, 1/sum */
    float delta[2] = {}, sum[D / 8][4] = {};
};

/* Against 16 keys and their values. */
template <bool DIAGONAL, uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void attention16_q_step(Thread &t, const place16<D, Thread> &p, float scale, uint32_t keys,
                                 uint32_t values, queries16<D> &r)
{
    float s[2][4], dp[2][4];

    dots16_twice<D, DTYPE>(t, r.rows, keys, s, r.dy, values, dp);
    GPT2_UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        const uint32_t i = j / 2 % 2;
        float &x = s[j / 4][j % 4];
        x = probability16(x, scale, r.stat[i].v[0], r.stat[i].v[1]) *
            (dp[j / 4][j % 4] - r.delta[i]);
        if (DIAGONAL && j / 4 * 8 + p.x + j % 2 > p.y + i * 8)
            x = 0;
    }
    mix16<D, DTYPE>(t, s, keys, r.sum);
}

/* delta of the queries: their y times their dy. The four threads of a row add up what they have. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void find_delta(Thread &t, const place16<D, Thread> &p, const gpt2_gpu_attention &q,
                         uint64_t first, queries16<D> &r)
{
    uint32_t y[D / 16][4];

    left_rows<D>(t, p, element(q.y, p.features()), p.width, first, q.seq, y);
    GPT2_UNROLL
    for (uint32_t k = 0; k < D / 16; k++)
        GPT2_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            r.delta[i % 2] += half_of<DTYPE>(y[k][i], 0) * half_of<DTYPE>(r.dy[k][i], 0) +
                              half_of<DTYPE>(y[k][i], 1) * half_of<DTYPE>(r.dy[k][i], 1);
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        r.delta[i] += t.across(r.delta[i], 1);
        r.delta[i] += t.across(r.delta[i], 2);
    }
}

/* The gradients of 64 queries: over the keys up to theirs. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void attention16_q(Thread &t, const gpt2_gpu_attention &q)
{
    constexpr uint32_t tile = GPT2_HALF_FEATURES(D), rows16 = 16 * GPT2_HALF_STRIDE(D);
    const place16<D, Thread> p(t, q);
    const uint64_t first = last_tile(q.seq) - t.row() * GPT2_HALF_TILE, stride = 3 * p.width;
    const uint16_t *keys = element(q.qkv, p.part(1)), *values = element(q.qkv, p.part(2));
    const float scale = q.scale * GPT2_LOG2_E;
    queries16<D> r;

    bring_tile<D>(t, 0, keys, stride, q.seq);
    bring_tile<D>(t, tile, values, stride, q.seq);
    left_rows<D>(t, p, element(q.qkv, p.part(0)), stride, first, q.seq, r.rows);
    left_rows<D>(t, p, element(q.dy, p.features()), p.width, first, q.seq, r.dy);
    find_delta<D, DTYPE>(t, p, q, first, r);
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t query = first + p.warp * 16 + p.y + 8 * i, at = t.block() * q.seq + query;
        if (!t.inside(query, q.seq))
            continue;
        r.stat[i] = t.template read<vec2>(q.stat + 2 * at);
        if (p.x == 0)
            t.template write<float>(q.delta + at, r.delta[i]);
    }
    for (uint64_t k = 0; k <= first; k += GPT2_HALF_TILE) {
        const uint32_t here = k / GPT2_HALF_TILE % 2 * 2 * tile, next = 2 * tile - here;
        const uint32_t whole = k < first ? 4 : p.warp; /* blocks of which the warp sees all */
        t.brought();
        t.barrier();
        if (k < first) {
            const uint64_t then = k + GPT2_HALF_TILE;
            bring_tile<D>(t, next, keys + then * stride, stride, q.seq - then);
            bring_tile<D>(t, next + tile, values + then * stride, stride, q.seq - then);
        }
        for (uint32_t c = 0; c < whole; c++)
            attention16_q_step<false, D, DTYPE>(t, p, scale, here + c * rows16,
                                                here + tile + c * rows16, r);
        if (k == first)
            attention16_q_step<true, D, DTYPE>(t, p, scale, here + whole * rows16,
                                               here + tile + whole * rows16, r);
    }
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t query = first + p.warp * 16 + p.y + 8 * i;
        if (t.inside(query, q.seq))
            store_row16<D, DTYPE>(t, p,
                                  static_cast<uint16_t *>(q.dqkv) + p.part(0) + query * stride, i,
                                  r.sum, q.scale);
    }
}

template <uint32_t D, class Thread>
GPT2_GPU void attention16_q_body(Thread &t, const gpt2_gpu_attention &q)
{
    if (q.dtype == ZERO_BF16)
        attention16_q<D, ZERO_BF16>(t, q);
    else
        attention16_q<D, ZERO_F16>(t, q);
}

/* Maxima and 1/sums, then deltas, of the 64 queries from `first` on are on their way. */
template <class Thread>
GPT2_GPU void bring_rows16(Thread &t, const gpt2_gpu_attention &q, uint32_t to, uint64_t first)
{
    const uint64_t at = t.block() * q.seq + first + t.index();

    if (t.index() >= GPT2_HALF_TILE)
        return;
    const bool inside = t.inside(first + t.index(), q.seq);
    t.template bring<8>(to + 2 * t.index(), inside ? q.stat + 2 * at : q.stat, inside);
    t.template bring<4>(to + 2 * GPT2_HALF_TILE + t.index(), inside ? q.delta + at : q.delta,
                        inside);
}

/* A thread's two keys, which are the rows here, and the sums of the gradients. */
template <uint32_t D> struct keys16 {
    uint32_t keys[D / 16][4], values[D / 16][4];
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
};

/* Against 16 queries, their dy, and what is known of these: `numbers`, from the c-th block on. */
template <bool DIAGONAL, uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void attention16_kv_step(Thread &t, const place16<D, Thread> &p, float scale,
                                  uint32_t queries, uint32_t dy, uint32_t numbers, uint32_t c,
                                  keys16<D> &r)
{
    float s[2][4], dp[2][4];

    dots16_twice<D, DTYPE>(t, r.keys, queries, s, r.values, dy, dp);
    GPT2_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t column = j / 2 * 8 + p.x + j % 2, query = 16 * c + column;
        const vec2 stat = t.template get<vec2>(numbers + 2 * query);
        const float delta = t.template get<float>(numbers + 2 * GPT2_HALF_TILE + query);
        GPT2_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            float &x = s[j / 2][2 * i + j % 2], &d = dp[j / 2][2 * i + j % 2];
            x = probability16(x, scale, stat.v[0], stat.v[1]);
            if (DIAGONAL && column < p.y + i * 8)
                x = 0;
            d = x * (d - delta);
        }
    }
    mix16<D, DTYPE>(t, s, dy, r.dv);
    mix16<D, DTYPE>(t, dp, queries, r.dk);
}

/* The gradients of 64 keys and values: over the queries from theirs on. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void attention16_kv(Thread &t, const gpt2_gpu_attention &q)
{
    constexpr uint32_t tile = GPT2_HALF_FEATURES(D), rows16 = 16 * GPT2_HALF_STRIDE(D);
    constexpr uint32_t buffer = 2 * tile + 3 * GPT2_HALF_TILE;
    const place16<D, Thread> p(t, q);
    const uint64_t first = t.row() * uint64_t{GPT2_HALF_TILE}, stride = 3 * p.width;
    const uint16_t *queries = element(q.qkv, p.part(0)), *dy = element(q.dy, p.features());
    const float scale = q.scale * GPT2_LOG2_E;
    keys16<D> r;

    bring_tile<D>(t, 0, queries + first * stride, stride, q.seq - first);
    bring_tile<D>(t, tile, dy + first * p.width, p.width, q.seq - first);
    bring_rows16(t, q, 2 * tile, first);
    left_rows<D>(t, p, element(q.qkv, p.part(1)), stride, first, q.seq, r.keys);
    left_rows<D>(t, p, element(q.qkv, p.part(2)), stride, first, q.seq, r.values);
    for (uint64_t at = first; at < q.seq; at += GPT2_HALF_TILE) {
        const uint32_t here = (at - first) / GPT2_HALF_TILE % 2 * buffer, next = buffer - here;
        const uint64_t then = at + GPT2_HALF_TILE;
        uint32_t c = 0;
        t.brought();
        t.barrier();
        if (then < q.seq) {
            bring_tile<D>(t, next, queries + then * stride, stride, q.seq - then);
            bring_tile<D>(t, next + tile, dy + then * p.width, p.width, q.seq - then);
            bring_rows16(t, q, next + 2 * tile, then);
        }
        if (at == first) { /* no query before the warp's keys sees them */
            c = p.warp;
            attention16_kv_step<true, D, DTYPE>(t, p, scale, here + c * rows16,
                                                here + tile + c * rows16, here + 2 * tile, c, r);
            c++;
        }
        for (; c < 4; c++)
            attention16_kv_step<false, D, DTYPE>(t, p, scale, here + c * rows16,
                                                 here + tile + c * rows16, here + 2 * tile, c, r);
    }
    GPT2_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t key = first + p.warp * 16 + p.y + 8 * i;
        if (!t.inside(key, q.seq))
            continue;
        uint16_t *to = static_cast<uint16_t *>(q.dqkv) + key * stride;
        store_row16<D, DTYPE>(t, p, to + p.part(1), i, r.dk, q.scale);
        store_row16<D, DTYPE>(t, p, to + p.part(2), i, r.dv, 1);
    }
}

template <uint32_t D, class Thread>
GPT2_GPU void attention16_kv_body(Thread &t, const gpt2_gpu_attention &q)
{
    if (q.dtype == ZERO_BF16)
        attention16_kv<D, ZERO_BF16>(t, q);
    else
        attention16_kv<D, ZERO_F16>(t, q);
}

#endif
