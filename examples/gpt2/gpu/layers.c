/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm, biases and GELU with their gradients; see inside.h. */
#include "inside.h"

size_t gpt2_gpu_partial(size_t rows, size_t columns)
{
    return gpt2_chunks(rows) * columns;
}

size_t gpt2_gpu_norm_partial(size_t rows, size_t width)
{
    return gpt2_norm_chunks(rows) * 2 * width;
}

void gpt2_gpu_norm_forward(struct gpt2_pass *p, const struct gpt2_norm_place *n, const float *x)
{
    GPT2_RUN(p, norm,
             &(struct gpt2_gpu_norm){.x = x,
                                     .w = n->w[0].value,
                                     .b = n->w[1].value,
                                     .next_b = n->next_b ? n->next_b->value : NULL,
                                     .stat = n->stat,
                                     .kept = n->kept,
                                     .next = n->next,
                                     .y = n->y,
                                     .rows = gpt2_rows(p->shape),
                                     .width = p->shape->model.width,
                                     .dtype = n->w->dtype});
}

void gpt2_gpu_norm_again(struct gpt2_pass *p, const struct gpt2_param *w,
                         const struct gpt2_param *b, const float *x, float *stat, void *y)
{
    GPT2_RUN(p, norm_again,
             &(struct gpt2_gpu_norm){.x = x,
                                     .w = w->value,
                                     .b = b->value,
                                     .stat = stat,
                                     .y = y,
                                     .rows = gpt2_rows(p->shape),
                                     .width = p->shape->model.width,
                                     .dtype = w->dtype});
}

/* Sums of all chunks to the gradient of w, and of those behind them to that of b, if any. */
static void fold(struct gpt2_pass *p, const struct gpt2_param *w, const struct gpt2_param *b,
                 const float *partial, uint64_t chunks, size_t columns)
{
    GPT2_RUN(p, fold,
             &(struct gpt2_gpu_fold){.gradient = {w->gradient, b ? b->gradient : NULL},
                                     .partial = partial,
                                     .chunks = chunks,
                                     .columns = columns,
                                     .n = b ? 2 : 1,
                                     .dtype = w->dtype,
                                     .beta = {w->beta, b ? b->beta : 0}});
}

void gpt2_gpu_norm_backward(struct gpt2_pass *p, const struct gpt2_param *w,
                            const struct gpt2_param *b, const float *x, const float *stat,
                            const void *dy, uint32_t dy_dtype, float beta, float *dx,
                            float *partial)
{
    const size_t rows = gpt2_rows(p->shape), width = p->shape->model.width;

    GPT2_RUN(p, norm_backward,
             &(struct gpt2_gpu_norm_backward){.x = x,
                                              .stat = stat,
                                              .w = w->value,
                                              .dy = dy,
                                              .dx = dx,
                                              .partial = partial,
                                              .rows = rows,
                                              .width = width,
                                              .dtype = w->dtype,
                                              .dy_dtype = dy_dtype,
                                              .beta = beta});
    fold(p, w, b, partial, gpt2_norm_chunks(rows), width);
}

void gpt2_gpu_bias_backward(struct gpt2_pass *p, const struct gpt2_param *b, const void *dy,
                            uint32_t dy_dtype, void *rounded, size_t n, float *partial)
{
    GPT2_RUN(p, columns,
             &(struct gpt2_gpu_columns){.partial = partial,
                                        .dy = dy,
                                        .rounded = rounded,
                                        .rows = gpt2_rows(p->shape),
                                        .columns = n,
                                        .dy_dtype = dy_dtype,
                                        .dtype = b->dtype});
    fold(p, b, NULL, partial, gpt2_chunks(gpt2_rows(p->shape)), n);
}

void gpt2_gpu_gelu_backward(struct gpt2_pass *p, const struct gpt2_param *b, const void *x, void *y,
                            void *dy, size_t n, float *partial)
{
    GPT2_RUN(p, gelu_backward,
             &(struct gpt2_gpu_gelu_backward){.y = y,
                                              .dy = dy,
                                              .x = x,
                                              .b = b->value,
                                              .partial = partial,
                                              .rows = gpt2_rows(p->shape),
                                              .columns = n,
                                              .dtype = b->dtype});
    fold(p, b, NULL, partial, gpt2_chunks(gpt2_rows(p->shape)), n);
}
