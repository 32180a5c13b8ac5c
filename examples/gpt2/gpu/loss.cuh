/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy over parts of the vocabulary, and its gradient; a block for each row. */
#ifndef GPT2_GPU_LOSS_CUH
#define GPT2_GPU_LOSS_CUH

#include "params.h"
#include "thread.cuh"

/* The target of the block's row as a column of this part, or something outside of it. */
template <class Thread>
GPT2_GPU uint64_t target_column(Thread &t, const int32_t *targets, uint64_t first)
{
    return static_cast<uint64_t>(t.template read<int32_t>(targets + t.block())) - first;
}

/* The maximum of logits and the sum of their exponentials less it, as they come. */
struct running {
    float most, sum;

    GPT2_GPU void add(float x)
    {
        raise(x);
        if (most != -INFINITY)
            sum += expf(x - most);
    }

    GPT2_GPU void add(const vec4 &x)
    {
        raise(fmaxf(fmaxf(x.v[0], x.v[1]), fmaxf(x.v[2], x.v[3])));
        if (most != -INFINITY)
            sum += (expf(x.v[0] - most) + expf(x.v[1] - most)) +
                   (expf(x.v[2] - most) + expf(x.v[3] - most));
    }

  private:
    GPT2_GPU void raise(float to)
    {
        const float old = most;

        most = fmaxf(most, to);
        if (old != -INFINITY)
            sum *= expf(old - most);
    }
};

/* Every logit of a row that is this thread's; rows of a multiple of 4 are aligned. */
template <class Thread> GPT2_GPU void add_logits(Thread &t, const float *x, uint64_t n, running &r)
{
    const uint64_t vectors = n % 4 == 0 ? n / 4 : 0;

    GPT2_UNROLL_SOME
    for (uint64_t c = t.index(); t.inside(c, vectors); c += t.size())
        r.add(load4(t, x, 4 * c, ZERO_F32));
    for (uint64_t c = 4 * vectors + t.index(); t.inside(c, n); c += t.size())
        r.add(t.template read<float>(x + c));
}

template <class Thread> GPT2_GPU void loss_body(Thread &t, const gpt2_gpu_loss &q)
{
    const uint64_t row = t.block();
    const float *x = q.logits + row * q.n;
    const float before = q.first ? t.template read<float>(q.stat + 2 * row) : -INFINITY;
    running r = {before, 0};

    add_logits(t, x, q.n, r);
    const float most = reduce<true>(t, r.most);
    float sum = reduce<false>(t, r.sum == 0 ? 0 : r.sum * expf(r.most - most));
    if (t.index() != 0)
        return;
    const uint64_t target = target_column(t, q.targets, q.first);
    if (q.first)
        sum += t.template read<float>(q.stat + 2 * row + 1) * expf(before - most);
    if (t.inside(target, q.n))
        t.template write<float>(q.loss + row, t.template read<float>(x + target));
    if (q.last) {
        const float logit = t.template read<float>(q.loss + row);
        t.template write<float>(q.loss + row, logf(sum) + (most - logit));
        sum = 1 / sum;
    }
    t.template write<float>(q.stat + 2 * row, most);
    t.template write<float>(q.stat + 2 * row + 1, sum);
}

/*
 * What is written lies before what is read next: all threads have read their part of the row
 * before any of them writes.
 */
template <uint32_t WIDTH, class Thread>
GPT2_GPU void loss_backward(Thread &t, const gpt2_gpu_loss_backward &q)
{
    const uint64_t row = t.block(), target = target_column(t, q.targets, q.first);
    const float most = t.template read<float>(q.stat + 2 * row);
    const float factor = t.template read<float>(q.stat + 2 * row + 1) * q.scale;
    float *x = q.logits + row * q.n;

    for (uint64_t first = 0; first < q.n; first += WIDTH * t.size()) {
        const uint64_t c = first + WIDTH * t.index();
        const bool here = t.inside(c, q.n);
        vec4 d = {};
        if (here && WIDTH == 4)
            d = load4(t, x, c, ZERO_F32);
        else if (here)
            d.v[0] = t.template read<float>(x + c);
        GPT2_UNROLL
        for (uint32_t k = 0; k < WIDTH; k++)
            d.v[k] = expf(d.v[k] - most) * factor - (c + k == target ? q.scale : 0);
        t.barrier();
        if (here && WIDTH == 4)
            store4(t, x, c, q.dtype, d);
        else if (here && q.dtype == ZERO_F32)
            t.template write<float>(x + c, d.v[0]);
        else if (here)
            t.template write<uint16_t>(reinterpret_cast<uint16_t *>(x) + c,
                                       half_from_float(d.v[0], q.dtype));
    }
}

template <class Thread> GPT2_GPU void loss_backward_body(Thread &t, const gpt2_gpu_loss_backward &q)
{
    if (q.n % 4 == 0) /* rows are aligned */
        loss_backward<4>(t, q);
    else
        loss_backward<1>(t, q);
}

#endif
