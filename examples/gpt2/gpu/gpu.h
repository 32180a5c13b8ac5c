/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 on an NVIDIA GPU: the passes of ../network.h on one stream, matrix products by cuBLAS, the
 * rest by kernels of our own. The residual stream and sums are fp32; what products read, and what
 * blocks save, is of the parameters' type.
 *
 * A pass enqueues; it waits once, at its end, for losses or logits. Tokens go through pinned memory
 * that is made when the GPU is opened: nothing is allocated in a step.
 */
#ifndef GPT2_GPU_GPU_H
#define GPT2_GPU_GPU_H

#include "../network.h"
#include "blas.h"

struct gpt2_gpu {
    struct gpt2_cuda cuda;
    struct gpt2_blas blas;
    void *staging; /* pinned: what gpt2_gpu_batch names */
    bool entered;  /* the context is the thread's, during a pass */
    int (*wait)(void *arg);
    void *wait_arg;
};

/* What goes to the GPU for a pass, and comes back; also the layout of the region. */
struct gpt2_gpu_batch {
    int32_t *tokens, *targets;
    int32_t *order, *start; /* positions by token, as gpt2_gpu_embed_backward has them */
    float *result;          /* losses of all rows, or logits of one */
    size_t to_bytes;        /* before result */
};

/*
 * Opens the GPU whose stream this is, for steps of that shape. wait() returns when the stream is
 * idle, 0 or a negative errno. Returns 0, or a negative errno with cuda.error set; to be closed
 * either way, while the stream is still there. -ENOSYS: built without nvcc.
 */
int gpt2_gpu_open(struct gpt2_gpu *g, const struct gpt2_shape *s, const char *cublas, void *stream,
                  int (*wait)(void *arg), void *wait_arg);
void gpt2_gpu_close(struct gpt2_gpu *g);

/* With a struct gpt2_gpu as math_arg. */
extern const struct gpt2_math gpt2_gpu_math;

#endif
