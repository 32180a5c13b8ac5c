/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm and biases with their gradients, and the place of a batch; see inside.h. */
#include "inside.h"

size_t gpt2_gpu_partial(size_t rows, size_t columns)
{
    return gpt2_chunks(rows) * columns;
}

void gpt2_gpu_norm_forward(struct gpt2_pass *p, const struct gpt2_param *w,
                           const struct gpt2_param *b, const float *x, float *stat, void *y,
                           bool again)
{
    const struct gpt2_gpu_norm q = {
        .x = x,
        .w = w->value,
        .b = b->value,
        .stat = stat,
        .y = y,
        .rows = gpt2_rows(p->shape),
        .width = p->shape->model.width,
        .dtype = w->dtype,
    };

    if (again)
        GPT2_RUN(p, norm_again, &q);
    else
        GPT2_RUN(p, norm, &q);
}

/* Column sums of all chunks to one gradient. */
static void fold(struct gpt2_pass *p, const struct gpt2_param *to, const float *partial,
                 size_t stride, size_t columns)
{
    GPT2_RUN(p, fold,
             &(struct gpt2_gpu_fold){.gradient = to->gradient,
                                     .partial = partial,
                                     .chunks = gpt2_chunks(gpt2_rows(p->shape)),
                                     .stride = stride,
                                     .columns = columns,
                                     .dtype = to->dtype,
                                     .beta = to->beta});
}

void gpt2_gpu_norm_backward(struct gpt2_pass *p, const struct gpt2_param *w,
                            const struct gpt2_param *b, const float *x, const float *stat,
                            const void *dy, uint32_t dy_dtype, float beta, float *dx,
                            float *partial)
{
    const size_t rows = gpt2_rows(p->shape), width = p->shape->model.width;

    GPT2_RUN(p, columns,
             &(struct gpt2_gpu_columns){.partial = partial,
                                        .dy = dy,
                                        .x = x,
                                        .stat = stat,
                                        .rows = rows,
                                        .columns = width,
                                        .dy_dtype = dy_dtype});
    fold(p, w, partial, 2 * width, width);
    fold(p, b, partial + width, 2 * width, width);
    GPT2_RUN(p, norm_rows,
             &(struct gpt2_gpu_norm_rows){.x = x,
                                          .stat = stat,
                                          .w = w->value,
                                          .dy = dy,
                                          .dx = dx,
                                          .rows = rows,
                                          .width = width,
                                          .dtype = w->dtype,
                                          .dy_dtype = dy_dtype,
                                          .beta = beta});
}

void gpt2_gpu_bias_backward(struct gpt2_pass *p, const struct gpt2_param *b, const void *dy,
                            uint32_t dy_dtype, size_t n, float *partial)
{
    GPT2_RUN(p, columns,
             &(struct gpt2_gpu_columns){.partial = partial,
                                        .dy = dy,
                                        .rows = gpt2_rows(p->shape),
                                        .columns = n,
                                        .dy_dtype = dy_dtype});
    fold(p, b, partial, n, n);
}
