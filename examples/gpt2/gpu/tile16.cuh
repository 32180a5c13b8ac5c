/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of 16-bit elements for attention: where a thread stands, how rows come to registers and to
 * shared memory, and the products of 16 × 16 by the units for matrices, with sums in fp32. A
 * thread's numbers of a product lie as the next product wants its left-hand side.
 */
#ifndef GPT2_GPU_TILE16_CUH
#define GPT2_GPU_TILE16_CUH

#include "params.h"
#include "thread.cuh"
#include "tile.h"

/*
 * Which head of which sequence a block is at, and where a thread stands. Heads are the grid's first
 * dimension, tiles the second: those with the most work begin before all others.
 */
template <uint32_t D, class Thread> struct place16 {
    uint64_t head, first_row, width; /* of the heads; of qkv and y, in rows; of y, in elements */
    uint32_t warp, y, x;             /* the first row is y of the warp's 16, the first column x */

    GPT2_GPU place16(Thread &t, const gpt2_gpu_attention &q)
        : head(t.block() % q.heads), first_row(t.block() / q.heads * q.seq), width(q.heads * D),
          warp(t.index() / 32), y(t.index() % 32 / 4), x(t.index() % 4 * 2)
    {
    }

    /* The head's queries, keys or values: part 0, 1, 2. Rows are 3 * width apart. */
    GPT2_GPU uint64_t part(uint32_t which) const
    {
        return first_row * 3 * width + which * width + head * D;
    }

    /* Its rows of y and dy. */
    GPT2_GPU uint64_t features() const
    {
        return first_row * width + head * D;
    }
};

/* Where the last tile of a sequence begins. */
GPT2_GPU uint64_t last_tile(uint64_t seq)
{
    return (seq - 1) / GPT2_HALF_TILE * GPT2_HALF_TILE;
}

GPT2_GPU const uint16_t *element(const void *array, uint64_t i)
{
    return static_cast<const uint16_t *>(array) + i;
}

/* The warp's rows of D features, from `first` on, as left-hand sides; zeros from row n on. */
template <uint32_t D, class Thread>
GPT2_GPU void left_rows(Thread &t, const place16<D, Thread> &p, const uint16_t *from,
                        uint64_t stride, uint64_t first, uint64_t n, uint32_t (&a)[D / 16][4])
{
    GPT2_UNROLL
    for (uint32_t k = 0; k < D / 16; k++)
        GPT2_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t row = first + p.warp * 16 + p.y + i % 2 * 8;
            a[k][i] = 0;
            if (t.inside(row, n))
                a[k][i] = t.template read<uint32_t>(from + row * stride + k * 16 + i / 2 * 8 + p.x);
        }
}

/* A tile of D features is on its way, zeros from row `here` on. */
template <uint32_t D, class Thread>
GPT2_GPU void bring_tile(Thread &t, uint32_t to, const uint16_t *from, uint64_t stride,
                         uint64_t here)
{
    GPT2_UNROLL
    for (uint32_t k = 0; k < GPT2_HALF_TILE * (D / 8); k += GPT2_ATTENTION_THREADS) {
        const uint32_t row = (k + t.index()) / (D / 8), column = (k + t.index()) % (D / 8) * 8;
        const bool inside = t.inside(row, here);
        t.template bring<16>(to + row * GPT2_HALF_STRIDE(D) + column / 2,
                             inside ? from + row * stride + column : from, inside);
    }
}

/* s = rows a times 16 rows of the tile at b. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void dots16(Thread &t, const uint32_t (&a)[D / 16][4], uint32_t b, float (&s)[2][4])
{
    GPT2_UNROLL
    for (uint32_t j = 0; j < 8; j++)
        s[j / 4][j % 4] = 0;
    GPT2_UNROLL
    for (uint32_t k = 0; k < D / 16; k++) {
        uint32_t r[4];
        t.template right<false>(b + 8 * k, GPT2_HALF_STRIDE(D), r);
        t.template product<DTYPE>(s[0], a[k], r[0], r[1]);
        t.template product<DTYPE>(s[1], a[k], r[2], r[3]);
    }
}

/* The same twice, side by side: a product waits for the one before it in its own sum alone. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void dots16_twice(Thread &t, const uint32_t (&a)[D / 16][4], uint32_t b, float (&s)[2][4],
                           const uint32_t (&c)[D / 16][4], uint32_t d, float (&u)[2][4])
{
    GPT2_UNROLL
    for (uint32_t j = 0; j < 8; j++)
        s[j / 4][j % 4] = u[j / 4][j % 4] = 0;
    GPT2_UNROLL
    for (uint32_t k = 0; k < D / 16; k++) {
        uint32_t r[4], w[4];
        t.template right<false>(b + 8 * k, GPT2_HALF_STRIDE(D), r);
        t.template right<false>(d + 8 * k, GPT2_HALF_STRIDE(D), w);
        t.template product<DTYPE>(s[0], a[k], r[0], r[1]);
        t.template product<DTYPE>(u[0], c[k], w[0], w[1]);
        t.template product<DTYPE>(s[1], a[k], r[2], r[3]);
        t.template product<DTYPE>(u[1], c[k], w[2], w[3]);
    }
}

/* sum += s, 16 columns of scores, times 16 rows of the tile at b. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void mix16(Thread &t, const float (&s)[2][4], uint32_t b, float (&sum)[D / 8][4])
{
    const uint32_t a[4] = {
        halves_from_floats(s[0][0], s[0][1], DTYPE), halves_from_floats(s[0][2], s[0][3], DTYPE),
        halves_from_floats(s[1][0], s[1][1], DTYPE), halves_from_floats(s[1][2], s[1][3], DTYPE)};

    GPT2_UNROLL
    for (uint32_t k = 0; k < D / 16; k++) {
        uint32_t r[4];
        t.template right<true>(b + 8 * k, GPT2_HALF_STRIDE(D), r);
        t.template product<DTYPE>(sum[2 * k], a, r[0], r[1]);
        t.template product<DTYPE>(sum[2 * k + 1], a, r[2], r[3]);
    }
}

/* Writes the thread's part of row y + 8 i of the warp, times factor. */
template <uint32_t D, uint32_t DTYPE, class Thread>
GPT2_GPU void store_row16(Thread &t, const place16<D, Thread> &p, uint16_t *to, uint32_t i,
                          const float (&sum)[D / 8][4], float factor)
{
    GPT2_UNROLL
    for (uint32_t k = 0; k < D / 8; k++)
        t.template write<uint32_t>(
            to + 8 * k + p.x,
            halves_from_floats(sum[k][2 * i] * factor, sum[k][2 * i + 1] * factor, DTYPE));
}

#endif
