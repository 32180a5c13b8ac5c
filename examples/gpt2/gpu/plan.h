/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From parameters to grids. Pure: nothing of the device is called or looked at. Names are those of
 * the module, gpt2_gpu_module.
 */
#ifndef GPT2_GPU_PLAN_H
#define GPT2_GPU_PLAN_H

#include <stddef.h>

#include "params.h"
#include "tile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the largest struct of parameters. */
#define GPT2_GPU_PARAMS_MAX 128u

/* One launch: `params` is the function's only parameter, a struct by value. */
struct gpt2_launch {
    uint32_t kernel; /* number in gpt2_kernel_name() */
    uint32_t grid[2], block, shared_bytes;
    uint32_t params_bytes;
    __attribute__((aligned(16))) unsigned char params[GPT2_GPU_PARAMS_MAX];
};

uint32_t gpt2_n_kernels(void);
const char *gpt2_kernel_name(uint32_t kernel);

/* Number of chunks of rows whose columns are added up. */
static inline uint64_t gpt2_chunks(uint64_t rows)
{
    return (rows + GPT2_CHUNK - 1) / GPT2_CHUNK;
}

static inline uint64_t gpt2_norm_chunks(uint64_t rows)
{
    return (rows + GPT2_NORM_CHUNK - 1) / GPT2_NORM_CHUNK;
}

void gpt2_plan_embed(struct gpt2_launch *l, const struct gpt2_gpu_embed *q);
void gpt2_plan_position(struct gpt2_launch *l, const struct gpt2_gpu_position *q);
void gpt2_plan_embed_backward(struct gpt2_launch *l, const struct gpt2_gpu_embed_backward *q);
void gpt2_plan_position_backward(struct gpt2_launch *l, const struct gpt2_gpu_position_backward *q);
void gpt2_plan_norm(struct gpt2_launch *l, const struct gpt2_gpu_norm *q);
void gpt2_plan_norm_again(struct gpt2_launch *l, const struct gpt2_gpu_norm *q);
void gpt2_plan_norm_backward(struct gpt2_launch *l, const struct gpt2_gpu_norm_backward *q);
void gpt2_plan_columns(struct gpt2_launch *l, const struct gpt2_gpu_columns *q);
void gpt2_plan_fold(struct gpt2_launch *l, const struct gpt2_gpu_fold *q);
void gpt2_plan_bias(struct gpt2_launch *l, const struct gpt2_gpu_bias *q);
void gpt2_plan_gelu(struct gpt2_launch *l, const struct gpt2_gpu_gelu *q);
void gpt2_plan_gelu_backward(struct gpt2_launch *l, const struct gpt2_gpu_gelu_backward *q);
void gpt2_plan_loss(struct gpt2_launch *l, const struct gpt2_gpu_loss *q);
void gpt2_plan_loss_backward(struct gpt2_launch *l, const struct gpt2_gpu_loss_backward *q);

/* Of heads with `features`, 32 or 64, and at most 65,535 heads in all sequences. */
void gpt2_plan_attention(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,
                         uint32_t features);
/* Of fp32. */
void gpt2_plan_delta(struct gpt2_launch *l, const struct gpt2_gpu_attention *q, uint32_t features);
void gpt2_plan_attention_q(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,
                           uint32_t features);
void gpt2_plan_attention_kv(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,
                            uint32_t features);

/* The module for cuModuleLoadData(): code for several devices, and PTX for later ones. */
extern const unsigned char gpt2_gpu_module[];

#ifdef __cplusplus
}
#endif
#endif
