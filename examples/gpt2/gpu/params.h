/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of the device functions, one struct each, passed by value. Pointers are addresses of
 * the device. Rows of activations are contiguous and `width` a multiple of 4. dtype is that of the
 * parameters and of what products read; what is a float * is fp32 always.
 */
#ifndef GPT2_GPU_PARAMS_H
#define GPT2_GPU_PARAMS_H

#include <stdint.h>

/* x[r] = w[tokens[r]]. */
struct gpt2_gpu_embed {
    float *x;
    const void *w;
    const int32_t *tokens;
    uint64_t rows, width;
    uint32_t dtype, reserved;
};

/* x[r] += w[r % seq]. */
struct gpt2_gpu_position {
    float *x;
    const void *w;
    uint64_t rows, width, seq;
    uint32_t dtype, reserved;
};

/*
 * The gradient of the embedding: row v gets the sum of dx at the positions that have the token v,
 * in order: order[start[v]] … order[start[v + 1] - 1].
 */
struct gpt2_gpu_embed_backward {
    void *gradient;
    const float *dx;
    const int32_t *order, *start;
    uint64_t vocab, width;
    uint32_t dtype;
    float beta;
};

/* Of the positions: sums over the batch, zeros behind seq. */
struct gpt2_gpu_position_backward {
    void *gradient;
    const float *dx;
    uint64_t batch, seq, context, width;
    uint32_t dtype;
    float beta;
};

/*
 * stat from x, and y (of dtype) from both; kept = x, next = x + next_b, to which a product adds.
 * `again`: y from the stat that is there.
 */
struct gpt2_gpu_norm {
    const float *x;
    const void *w, *b, *next_b;
    float *stat, *kept, *next; /* kept, next: or NULL */
    void *y;
    uint64_t rows, width;
    uint32_t dtype, reserved;
};

/*
 * dx = beta * dx + the gradient of a layer norm's input; sums of columns over GPT2_NORM_CHUNK rows
 * each, of dy * normed x and of dy: partial[chunk][2][width].
 */
struct gpt2_gpu_norm_backward {
    const float *x, *stat;
    const void *w, *dy;
    float *dx, *partial;
    uint64_t rows, width; /* at most GPT2_WIDTH_MAX */
    uint32_t dtype, dy_dtype;
    float beta;
    uint32_t reserved;
};

/*
 * Sums of columns over GPT2_CHUNK rows each: partial[chunk][columns] of dy. rounded = dy, of dtype.
 */
struct gpt2_gpu_columns {
    float *partial;
    const void *dy;
    void *rounded; /* or NULL */
    uint64_t rows, columns;
    uint32_t dy_dtype, dtype;
};

/*
 * gradient[i][c] = beta * gradient[i][c] + the sum over the chunks of partial[chunk][i][c], for n
 * gradients of as many columns.
 */
struct gpt2_gpu_fold {
    void *gradient[2];
    const float *partial;
    uint64_t chunks, columns, n;
    uint32_t dtype;
    float beta[2];
    uint32_t reserved;
};

/* y = b in each row, rows × width: what a product adds to. */
struct gpt2_gpu_bias {
    void *y;
    const void *b;
    uint64_t rows, width;
    uint32_t dtype, reserved;
};

/* y = gelu(x + b). All of dtype. */
struct gpt2_gpu_gelu {
    void *y;
    const void *x, *b;
    uint64_t rows, width;
    uint32_t dtype, reserved;
};

/* y again; dy becomes the gradient of x, whose sums of columns go to partial[chunk][columns]. */
struct gpt2_gpu_gelu_backward {
    void *y, *dy;
    const void *x, *b;
    float *partial;
    uint64_t rows, columns;
    uint32_t dtype, reserved;
};

/*
 * Causal attention. qkv: rows × 3 width; y, dy: rows × width; stat: maximum and 1/sum of each row's
 * softmax, at ((b * heads + h) * seq + t) * 2; delta: y times dy of each row, at (b * heads + h) *
 * seq + t; in 16 bits the gradients of the queries find it.
 */
struct gpt2_gpu_attention {
    const void *qkv;
    void *y;
    float *stat, *delta;
    const void *dy;
    void *dqkv;
    uint64_t batch, seq, heads;
    uint32_t dtype;
    float scale; /* of the scores */
};

/*
 * The cross-entropy of logits v … v + n - 1 of the vocabulary, rows × n, after those before them:
 * stat has maximum and sum of exponentials of each row, loss the target's logit; after the last
 * ones stat has 1/sum and loss the nats.
 */
struct gpt2_gpu_loss {
    const float *logits;
    const int32_t *targets;
    float *stat, *loss;
    uint64_t rows, first, n;
    uint32_t last, reserved;
};

/*
 * Logits become the gradient of scale * loss, of dtype and in place: row r begins where it did, so
 * that there are n (fp32) or 2 n (16 bits) elements from one to the next.
 */
struct gpt2_gpu_loss_backward {
    float *logits;
    const int32_t *targets;
    const float *stat;
    uint64_t rows, first, n;
    uint32_t dtype;
    float scale;
};

#endif
