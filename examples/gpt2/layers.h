/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of GPT-2, forward and backward, over memory that the caller gives; nothing here
 * allocates. Activations are fp32, rows × features, row-major; parameters are fp32, bf16 or fp16
 * and are widened, or multiplied as they are (matmul.h); gradients are computed in fp32 and rounded
 * once when written.
 *
 * A backward pass writes gradient = beta * gradient + its part, beta 0 or 1.
 */
#ifndef GPT2_LAYERS_H
#define GPT2_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* A parameter as a layer sees it; gradient and beta count in backward passes only. */
struct gpt2_param {
    uint32_t dtype;
    float beta;
    const void *value;
    void *gradient;
};

/* ---- Linear: y = beta * y + x w^T + b, w: n_out × n_in --------------------------------------- */

/* scratch: gpt2_matmul_scratch() floats; vector: n_out floats. */
void gpt2_linear_forward(const struct gpt2_param *w, const struct gpt2_param *b, const float *x,
                         size_t rows, size_t n_in, size_t n_out, float beta, float *y,
                         float *scratch, float *vector);
/* dx = dy w. */
void gpt2_linear_input_gradient(const struct gpt2_param *w, const float *dy, size_t rows,
                                size_t n_in, size_t n_out, float *dx, float *scratch);
/* The gradients of w and b. */
void gpt2_linear_weight_gradient(const struct gpt2_param *w, const struct gpt2_param *b,
                                 const float *x, const float *dy, size_t rows, size_t n_in,
                                 size_t n_out, float *scratch, float *vector);

/* ---- Layer norm over rows of `width`; stat: mean and 1/deviation, two floats a row ----------- */

/* Computes stat from x. */
void gpt2_norm_stat(const float *x, size_t rows, size_t width, float *stat);
/* y from x and stat. vector: 2 * width floats. */
void gpt2_norm_forward(const struct gpt2_param *w, const struct gpt2_param *b, const float *x,
                       const float *stat, size_t rows, size_t width, float *y, float *vector);
/* dx = beta * dx + the gradient of the input. vector: 5 * width floats. */
void gpt2_norm_backward(const struct gpt2_param *w, const struct gpt2_param *b, const float *x,
                        const float *stat, const float *dy, size_t rows, size_t width, float beta,
                        float *dx, float *vector);

/* ---- GELU with tanh -------------------------------------------------------------------------- */

void gpt2_gelu_forward(const float *x, size_t n, float *y);
/* y = gelu(x) once more, and dy becomes dx. */
void gpt2_gelu_backward(const float *x, size_t n, float *y, float *dy);

/* ---- Embedding ------------------------------------------------------------------------------- */

/* x[i] = w[tokens[i]]. */
void gpt2_embed_forward(const struct gpt2_param *w, const int32_t *tokens, size_t rows,
                        size_t width, float *x);
/* Integers that gpt2_embed_backward() needs. */
size_t gpt2_embed_scratch(size_t vocab, size_t rows);
/* The gradient of w (vocab rows). scratch: as above; vector: width floats. */
void gpt2_embed_backward(const struct gpt2_param *w, const int32_t *tokens, const float *dx,
                         size_t rows, size_t vocab, size_t width, int32_t *scratch, float *vector);

/* x[b][t] += w[t]. vector: width floats. */
void gpt2_position_forward(const struct gpt2_param *w, size_t batch, size_t seq, size_t width,
                           float *x, float *vector);
/* The gradient of w: sums over the batch; rows seq … context - 1 get nothing. */
void gpt2_position_backward(const struct gpt2_param *w, const float *dx, size_t batch, size_t seq,
                            size_t context, size_t width, float *vector);

/* ---- Causal attention ------------------------------------------------------------------------ */

struct gpt2_attention {
    size_t batch, seq, heads, width;
};

/* Floats of scratch for a forward and for a backward pass. */
size_t gpt2_attention_scratch(const struct gpt2_attention *a, int backward);
/*
 * qkv: rows × 3 width (queries, keys, values); y: rows × width; stat: maximum and 1/sum of every
 * softmax, 2 * rows * heads floats, from which the backward pass computes the same probabilities.
 */
void gpt2_attention_forward(const struct gpt2_attention *a, const float *qkv, float *y, float *stat,
                            float *scratch);
void gpt2_attention_backward(const struct gpt2_attention *a, const float *qkv, const float *y,
                             const float *stat, const float *dy, float *dqkv, float *scratch);

/* ---- Output layer and loss: the token embedding again ---------------------------------------- */

struct gpt2_head {
    size_t rows, width, vocab;
    uint32_t dtype;
    int keep; /* the logits of a training step stay in memory instead of being computed twice */
};

/* Floats of logits: all of them with `keep`, else one block. */
size_t gpt2_head_logits(const struct gpt2_head *h);
/* Floats of scratch. */
size_t gpt2_head_scratch(const struct gpt2_head *h);

/*
 * loss[i]: nats of targets[i] given row i of x; stat: maximum and 1/sum of each softmax, 2 * rows.
 */
void gpt2_head_forward(const struct gpt2_head *h, const struct gpt2_param *w, const float *x,
                       const int32_t *targets, float *loss, float *stat, float *logits,
                       float *scratch);
/*
 * dx and the gradient of w, of the sum of scale * loss[i]. logits: as left by the forward pass
 * (with keep), else scratch.
 */
void gpt2_head_backward(const struct gpt2_head *h, const struct gpt2_param *w, const float *x,
                        const int32_t *targets, const float *stat, float scale, float *dx,
                        float *logits, float *scratch);
/* All logits of one row. */
void gpt2_head_row(const struct gpt2_head *h, const struct gpt2_param *w, const float *x,
                   float *logits, float *scratch);

#endif
