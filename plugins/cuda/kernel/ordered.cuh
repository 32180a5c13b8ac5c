/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums whose order is prescribed, and what follows from them: SUMSQ, TOTAL, SCALARS.
 *
 * A chain of additions in fp64 cannot be cut, so one thread walks each; what can be done is to
 * spare it all waiting. Of SUMSQ memory goes to shared memory by vectors of the whole block, and
 * the chains read it there, where an answer takes some twenty cycles and not a thousand. TOTAL has
 * a chain for each thread of a block, and a last one of what they end with. SCALARS has a sum for
 * each rank, too few for more than a loop.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_ORDERED_CUH
#define ZERO_PLUGINS_CUDA_KERNEL_ORDERED_CUH

#include "stream.cuh"

/* ---- SUMSQ ----------------------------------------------------------------------------------- */

/* Place of an element of a block's tiles in shared memory. */
template <uint32_t X> ZERO__GPU uint32_t tile_at(uint32_t element)
{
    const uint32_t pad = ZERO__CUDA_SUMSQ_STRIDE - ZERO_SUMSQ_BLOCK;
    return (element + element / ZERO_SUMSQ_BLOCK * pad) * X;
}

/*
 * Brings the elements [first, first + all) of x to shared memory, zeros behind the last. Eight
 * vectors of every thread are under way at once: 16 KB a block, and there are 6 or 8 blocks.
 */
template <uint32_t X, class Thread>
ZERO__GPU void stage_tiles(Thread &t, const zero__cuda_sumsq &q, uint64_t first)
{
    constexpr uint32_t all = ZERO__CUDA_SUMSQ_TILES * ZERO_SUMSQ_BLOCK, w = 16 / X, batch = 8;
    const uint64_t rest = q.count - first;
    const uint32_t here = rest < all ? static_cast<uint32_t>(rest) : all;
    const uint32_t vectors = q.aligned ? here / w : 0;

    for (uint32_t v = 0; v < vectors; v += t.size() * batch) {
        raw<16> x[batch];
        ZERO__UNROLL
        for (uint32_t b = 0; b < batch; b++) {
            uint32_t i = v + b * t.size() + t.index();
            if (t.inside(i, vectors))
                x[b] = t.template load<16>(at_byte(q.x, (first + i * w) * X));
        }
        ZERO__UNROLL
        for (uint32_t b = 0; b < batch; b++) {
            uint32_t i = v + b * t.size() + t.index();
            if (t.inside(i, vectors))
                t.template put<16>(tile_at<X>(i * w), x[b]);
        }
    }
    for (uint32_t i = vectors * w + t.index(); i < all; i += t.size()) { /* as large as the place */
        raw<X> x = {};
        if (t.inside(i, here))
            x = t.template load<X>(at_byte(q.x, (first + i) * X));
        t.template put<X>(tile_at<X>(i), x);
    }
}

/* The squares of every 16th element of a tile, from the lane's own on. */
template <uint32_t X, class Thread>
ZERO__GPU double lane_sum(Thread &t, const zero__cuda_sumsq &q, uint32_t tile, uint32_t lane)
{
    double sum = 0;

    ZERO__UNROLL_16
    for (uint32_t i = lane; i < ZERO_SUMSQ_BLOCK; i += 16) {
        raw<X> r = t.template get<X>((tile * ZERO__CUDA_SUMSQ_STRIDE + i) * X);
        float x[1];
        to_floats<X>(r, q.dtype, x);
        sum = add_square(sum, x[0]);
    }
    return sum;
}

template <uint32_t HALF> ZERO__GPU void fold(double *lane)
{
    ZERO__UNROLL
    for (uint32_t j = 0; j < HALF; j++)
        lane[j] = add(lane[j], lane[j + HALF]);
}

template <uint32_t X, class Thread>
ZERO__GPU void sumsq_body(Thread &t, const zero__cuda_sumsq &q)
{
    constexpr uint32_t tiles = ZERO__CUDA_SUMSQ_TILES, lanes_at = ZERO__CUDA_SUMSQ_LANES(X);
    const uint64_t n = (q.count + ZERO_SUMSQ_BLOCK - 1) / ZERO_SUMSQ_BLOCK;

    for (uint64_t tile = t.block() * tiles; tile < n; tile += t.blocks() * tiles) {
        stage_tiles<X>(t, q, tile * ZERO_SUMSQ_BLOCK);
        t.barrier();
        if (t.index() < tiles * 16)
            t.template put<8>(lanes_at + t.index() * 8,
                              to_raw(lane_sum<X>(t, q, t.index() / 16, t.index() % 16)));
        t.barrier();
        /* Whoever adds lanes has done so before it stages, and lanes change behind that barrier. */
        if (t.index() < tiles && t.inside(tile + t.index(), n)) {
            double lane[16];
            ZERO__UNROLL
            for (uint32_t j = 0; j < 16; j++)
                lane[j] = from_raw<double>(t.template get<8>(lanes_at + (t.index() * 16 + j) * 8));
            fold<8>(lane);
            fold<4>(lane);
            fold<2>(lane);
            fold<1>(lane);
            t.template store<8>(q.partial + tile + t.index(), to_raw(lane[0]));
        }
    }
}

/* ---- TOTAL and SCALARS ----------------------------------------------------------------------- */

/* A lane is a thread's; thread 0 adds them up. */
template <class Thread> ZERO__GPU void total_body(Thread &t, const zero__cuda_total &q)
{
    static_assert(ZERO__CUDA_TOTAL_THREADS == ZERO_TOTAL_LANES, "a thread for each lane");
    constexpr uint32_t batch = 16;
    double sum = 0;

    for (uint64_t at = t.index(); at < q.count; at += batch * ZERO_TOTAL_LANES) {
        raw<8> x[batch] = {};
        ZERO__UNROLL
        for (uint32_t b = 0; b < batch; b++)
            if (t.inside(at + b * ZERO_TOTAL_LANES, q.count))
                x[b] = t.template load<8>(q.x + at + b * ZERO_TOTAL_LANES);
        ZERO__UNROLL
        for (uint32_t b = 0; b < batch; b++) /* a sum that began as +0 is the same plus +0 */
            sum = add(sum, from_raw<double>(x[b]));
    }
    t.template put<8>(t.index() * 8, to_raw(sum));
    t.barrier();
    if (t.index() != 0)
        return;
    sum = 0;
    ZERO__UNROLL_16
    for (uint32_t i = 0; i < ZERO_TOTAL_LANES; i++)
        sum = add(sum, from_raw<double>(t.template get<8>(i * 8)));
    *q.total = sum;
}

ZERO__GPU bool is_finite(double a)
{
    uint64_t bits;

    memcpy(&bits, &a, sizeof bits);
    return (bits >> 52 & 0x7ff) != 0x7ff;
}

/* The norm, the factor and the loss scale of a step, as zero/device.h has them. */
ZERO__GPU void decide(const zero_scalars_args &a, zero_scalars &s, double total)
{
    const double inverse = a.inverse, average = divide(inverse, static_cast<double>(s.loss_scale));

    s.grad_norm = multiply(root(total), average);
    if (!is_finite(total)) {
        s.skip = 1;
        s.factor = 0;
        s.n_skipped++;
        s.good = 0;
        if (a.growth != 0) {
            float scale = multiply(s.loss_scale, a.backoff);
            s.loss_scale = scale < a.min_scale ? a.min_scale : scale;
        }
        return;
    }
    double ratio = 1;
    if (a.clip > 0)
        ratio = divide(static_cast<double>(a.clip), add(s.grad_norm, 1e-6));
    s.skip = 0;
    s.factor = narrow(multiply(average, ratio < 1 ? ratio : 1.0));
    s.step++;
    if (s.good < 0xffffffffu)
        s.good++;
    if (a.growth != 0 && s.good >= a.window) {
        float scale = multiply(s.loss_scale, a.growth);
        s.loss_scale = scale > a.max_scale ? a.max_scale : scale;
        s.good = 0;
    }
}

template <class Thread> ZERO__GPU void scalars_body(Thread &t, const zero__cuda_scalars &q)
{
    double total = 0;

    if (t.index() != 0)
        return;
    ZERO__UNROLL_16
    for (uint32_t i = 0; t.inside(i, q.args.ranks); i++)
        total = add(total, from_raw<double>(t.template load<8>(q.args.sums + i)));
    decide(q.args, *q.args.scalars, total);
}

#endif
