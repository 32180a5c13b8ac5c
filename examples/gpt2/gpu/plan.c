/* SPDX-License-Identifier: Apache-2.0 */
/* Grids; see plan.h. */
#include "plan.h"

#include <string.h>

#include "table.h"

enum kernel {
#define ID(id, ...) id,
    GPT2_GPU_KERNELS(ID)
#undef ID
        N_KERNELS
};

static const struct {
    const char *name;
    uint32_t threads, shared_floats;
} kernels[N_KERNELS] = {
#define ROW(id, name, params, threads, resident, shared, ...) {#name, threads, shared},
    GPT2_GPU_KERNELS(ROW)
#undef ROW
};

/* clang-format off */
#define CHECK(id, name, params, ...) \
    _Static_assert(sizeof(struct params) <= GPT2_GPU_PARAMS_MAX, #params);
GPT2_GPU_KERNELS(CHECK)
#undef CHECK
/* clang-format on */

uint32_t gpt2_n_kernels(void)
{
    return N_KERNELS;
}

const char *gpt2_kernel_name(uint32_t kernel)
{
    return kernel < N_KERNELS ? kernels[kernel].name : NULL;
}

static void plan(struct gpt2_launch *l, enum kernel k, uint64_t x, uint64_t y, const void *params,
                 size_t bytes)
{
    l->kernel = k;
    l->grid[0] = (uint32_t)x;
    l->grid[1] = (uint32_t)y;
    l->block = kernels[k].threads;
    l->shared_bytes = kernels[k].shared_floats * (uint32_t)sizeof(float);
    l->params_bytes = (uint32_t)bytes;
    memcpy(l->params, params, bytes);
}

/* Blocks for a thread each of n. */
static uint64_t blocks(enum kernel k, uint64_t n)
{
    return (n + kernels[k].threads - 1) / kernels[k].threads;
}

void gpt2_plan_embed(struct gpt2_launch *l, const struct gpt2_gpu_embed *q)
{
    plan(l, EMBED, blocks(EMBED, q->rows * q->width / 4), 1, q, sizeof *q);
}

void gpt2_plan_position(struct gpt2_launch *l, const struct gpt2_gpu_position *q)
{
    plan(l, POSITION, blocks(POSITION, q->rows * q->width / 4), 1, q, sizeof *q);
}

void gpt2_plan_embed_backward(struct gpt2_launch *l, const struct gpt2_gpu_embed_backward *q)
{
    plan(l, EMBED_BACKWARD, q->vocab, 1, q, sizeof *q);
}

void gpt2_plan_position_backward(struct gpt2_launch *l, const struct gpt2_gpu_position_backward *q)
{
    plan(l, POSITION_BACKWARD, blocks(POSITION_BACKWARD, q->context * q->width / 4), 1, q,
         sizeof *q);
}

void gpt2_plan_norm(struct gpt2_launch *l, const struct gpt2_gpu_norm *q)
{
    plan(l, NORM, q->rows, 1, q, sizeof *q);
}

void gpt2_plan_norm_again(struct gpt2_launch *l, const struct gpt2_gpu_norm *q)
{
    plan(l, NORM_AGAIN, blocks(NORM_AGAIN, q->rows * q->width / 4), 1, q, sizeof *q);
}

void gpt2_plan_norm_rows(struct gpt2_launch *l, const struct gpt2_gpu_norm_rows *q)
{
    plan(l, NORM_ROWS, q->rows, 1, q, sizeof *q);
}

void gpt2_plan_columns(struct gpt2_launch *l, const struct gpt2_gpu_columns *q)
{
    plan(l, COLUMNS, blocks(COLUMNS, q->columns / 4), gpt2_chunks(q->rows), q, sizeof *q);
}

void gpt2_plan_fold(struct gpt2_launch *l, const struct gpt2_gpu_fold *q)
{
    plan(l, FOLD, blocks(FOLD, q->columns / 4), 1, q, sizeof *q);
}

void gpt2_plan_residual(struct gpt2_launch *l, const struct gpt2_gpu_residual *q)
{
    plan(l, RESIDUAL, blocks(RESIDUAL, q->rows * q->width / 4), 1, q, sizeof *q);
}

void gpt2_plan_round(struct gpt2_launch *l, const struct gpt2_gpu_round *q)
{
    plan(l, ROUND, blocks(ROUND, q->n / 4), 1, q, sizeof *q);
}

void gpt2_plan_gelu(struct gpt2_launch *l, const struct gpt2_gpu_gelu *q)
{
    plan(l, GELU, blocks(GELU, q->rows * q->width / 4), 1, q, sizeof *q);
}

void gpt2_plan_loss(struct gpt2_launch *l, const struct gpt2_gpu_loss *q)
{
    plan(l, LOSS, q->rows, 1, q, sizeof *q);
}

void gpt2_plan_loss_backward(struct gpt2_launch *l, const struct gpt2_gpu_loss_backward *q)
{
    plan(l, LOSS_BACKWARD, q->rows, 1, q, sizeof *q);
}

static uint64_t tiles(uint64_t seq, uint32_t rows)
{
    return (seq + rows - 1) / rows;
}

void gpt2_plan_attention(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,
                         uint32_t features)
{
    plan(l, features == 32 ? ATTENTION_32 : ATTENTION_64, tiles(q->seq, GPT2_FORWARD_TILE),
         q->batch * q->heads, q, sizeof *q);
}

void gpt2_plan_delta(struct gpt2_launch *l, const struct gpt2_gpu_attention *q, uint32_t features)
{
    plan(l, features == 32 ? DELTA_32 : DELTA_64, blocks(DELTA_64, q->batch * q->heads * q->seq), 1,
         q, sizeof *q);
}

void gpt2_plan_attention_q(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,
                           uint32_t features)
{
    plan(l, features == 32 ? ATTENTION_Q_32 : ATTENTION_Q_64, tiles(q->seq, GPT2_SCORE_TILE),
         q->batch * q->heads, q, sizeof *q);
}

void gpt2_plan_attention_kv(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,
                            uint32_t features)
{
    plan(l, features == 32 ? ATTENTION_KV_32 : ATTENTION_KV_64, tiles(q->seq, GPT2_SCORE_TILE),
         q->batch * q->heads, q, sizeof *q);
}
