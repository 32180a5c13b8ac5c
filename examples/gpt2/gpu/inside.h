/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the GPU's passes share: launches that do nothing after an error. */
#ifndef GPT2_GPU_INSIDE_H
#define GPT2_GPU_INSIDE_H

#include "gpu.h"

static inline struct gpt2_gpu *gpt2_gpu_of(const struct gpt2_pass *p)
{
    return p->host->math_arg;
}

/* Launches the kernel `name` with a struct of parameters q. */
#define GPT2_RUN(p, name, ...)                                           \
    do {                                                                 \
        struct gpt2_launch run_launch;                                   \
        if ((p)->err)                                                    \
            break;                                                       \
        gpt2_plan_##name(&run_launch, __VA_ARGS__);                      \
        (p)->err = gpt2_cuda_launch(&gpt2_gpu_of(p)->cuda, &run_launch); \
    } while (0)

static inline struct gpt2_matrix gpt2_matrix(const void *at, uint32_t dtype, size_t ld)
{
    return (struct gpt2_matrix){(void *)(uintptr_t)at, dtype, (uint32_t)ld};
}

static inline void gpt2_product(struct gpt2_pass *p, bool ta, bool tb, size_t m, size_t n, size_t k,
                                struct gpt2_matrix a, struct gpt2_matrix b, float beta,
                                struct gpt2_matrix c)
{
    if (!p->err)
        p->err = gpt2_blas_product(&gpt2_gpu_of(p)->blas, ta, tb, m, n, k, a, b, beta, c);
}

static inline void gpt2_copy(struct gpt2_pass *p, void *dst, const void *src, size_t bytes)
{
    if (!p->err)
        p->err = gpt2_cuda_copy(&gpt2_gpu_of(p)->cuda, dst, src, bytes);
}

/* ---- layers.c: with gradients, as ../layers.h says ------------------------------------------- */

/* Floats for the sums of columns of at most `columns`, and of a layer norm. */
size_t gpt2_gpu_partial(size_t rows, size_t columns);
size_t gpt2_gpu_norm_partial(size_t rows, size_t width);

/* Weights and bias of a layer norm, and where its results go; kept and next may be NULL. */
struct gpt2_norm_place {
    const struct gpt2_param *w, *next_b;
    float *stat, *kept, *next;
    void *y;
};

/* y and stat from x; kept = x, next = x + next_b, to which a product adds. */
void gpt2_gpu_norm_forward(struct gpt2_pass *p, const struct gpt2_norm_place *n, const float *x);
/* y alone, from the stat that is there. */
void gpt2_gpu_norm_again(struct gpt2_pass *p, const struct gpt2_param *w,
                         const struct gpt2_param *b, const float *x, float *stat, void *y);
/* dy is of dy_dtype; partial: gpt2_gpu_norm_partial(). */
void gpt2_gpu_norm_backward(struct gpt2_pass *p, const struct gpt2_param *w,
                            const struct gpt2_param *b, const float *x, const float *stat,
                            const void *dy, uint32_t dy_dtype, float beta, float *dx,
                            float *partial);
/* The gradient of a bias of n elements; dy: rows × n of dy_dtype; rounded (or NULL) = dy. */
void gpt2_gpu_bias_backward(struct gpt2_pass *p, const struct gpt2_param *b, const void *dy,
                            uint32_t dy_dtype, void *rounded, size_t n, float *partial);
/* y = gelu(x + b), rows × n; dy becomes the gradient of x, and b gets its own. */
void gpt2_gpu_gelu_backward(struct gpt2_pass *p, const struct gpt2_param *b, const void *x, void *y,
                            void *dy, size_t n, float *partial);

/* ---- gpu.c ----------------------------------------------------------------------------------- */

/* Where the batch of the pass at hand is on the GPU. */
struct gpt2_gpu_batch gpt2_gpu_batch_of(struct gpt2_pass *p);

/* ---- block.c, head.c ------------------------------------------------------------------------- */

size_t gpt2_gpu_block_saved(const struct gpt2_shape *s);
size_t gpt2_gpu_block_work(const struct gpt2_shape *s, bool backward);
void gpt2_gpu_block(struct gpt2_pass *p, uint32_t layer);
void gpt2_gpu_d_block(struct gpt2_pass *p, uint32_t layer);

size_t gpt2_gpu_final(const struct gpt2_shape *s);
size_t gpt2_gpu_head(const struct gpt2_shape *s, bool training);
void gpt2_gpu_norm_final(struct gpt2_pass *p);
void gpt2_gpu_losses(struct gpt2_pass *p);
void gpt2_gpu_logits(struct gpt2_pass *p);
void gpt2_gpu_d_head(struct gpt2_pass *p);
void gpt2_gpu_d_norm(struct gpt2_pass *p);

#endif
