/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transformer block (layer norm before attention and before the two-layer network, as in GPT-2),
 * forward and backward, and where its activations lie.
 *
 * Two regions: `saved` lives from a block's forward pass to its backward pass, `work` only during
 * one pass. With recomputation only the block's input is saved and the backward pass runs the
 * forward pass again, on the same functions, so both ways give the same bits.
 */
#ifndef GPT2_BLOCK_H
#define GPT2_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <zero/types.h>

#include "layers.h"
#include "model.h"

/* The sizes of a step. */
struct gpt2_shape {
    struct gpt2_config model;
    uint32_t batch, seq; /* of one rank and micro-batch */
    uint32_t dtype;      /* of parameters and gradients */
    int recompute;
};

/* Takes 64-byte aligned pieces off a region; with base NULL it only counts. */
struct gpt2_bump {
    char *base;
    size_t used;
};

static inline void *gpt2_take(struct gpt2_bump *b, size_t bytes)
{
    void *p = b->base ? b->base + b->used : NULL;
    b->used += (bytes + 63) / 64 * 64;
    return p;
}

static inline size_t gpt2_rows(const struct gpt2_shape *s)
{
    return (size_t)s->batch * s->seq;
}

/* Bytes of the regions; they are aligned to 64 bytes. */
size_t gpt2_block_saved(const struct gpt2_shape *s);
size_t gpt2_block_work(const struct gpt2_shape *s, int backward);

/* x: the residual stream, rows × width, in place. params: GPT2_BLOCK_TENSORS of them. */
void gpt2_block_forward(const struct gpt2_shape *s, const struct gpt2_param *params, void *saved,
                        void *work, float *x);
/* dx: gradient of the output, becomes the gradient of the input. */
void gpt2_block_backward(const struct gpt2_shape *s, const struct gpt2_param *params, void *saved,
                         void *work, float *dx);

#endif
