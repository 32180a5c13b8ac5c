/* SPDX-License-Identifier: Apache-2.0 */
/* Grids; see plan.h. */
#include "plan.h"

#include <stdbool.h>
#include <string.h>

#include <zero/types.h>

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

/* Tiles of that many. */
static uint64_t tiles(uint64_t n, uint32_t each)
{
    return (n + each - 1) / each;
}

/* Parameters, name, number and grid of a function; then those of heads with 32 and 64 features. */
#define PLAN(q_, name, k, x, y)                                                           \
    void gpt2_plan_##name(struct gpt2_launch *l, const struct gpt2_gpu_##q_ *q)           \
    {                                                                                     \
        plan(l, k, x, y, q, sizeof *q);                                                   \
    }
#define PLAN_HEADS(name, k, x, y)                                                         \
    void gpt2_plan_##name(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,      \
                          uint32_t features)                                              \
    {                                                                                     \
        plan(l, features == 32 ? k##_32 : k##_64, x, y, q, sizeof *q);                    \
    }
/* The same with a function of its own for 16 bits, whose grid has heads before tiles. */
#define PLAN_TILES(name, k, k16, rows)                                                    \
    void gpt2_plan_##name(struct gpt2_launch *l, const struct gpt2_gpu_attention *q,      \
                          uint32_t features)                                              \
    {                                                                                     \
        const bool wide = q->dtype == ZERO_F32;                                           \
        const enum kernel of32 = wide ? k##_32 : k16##_32;                                \
        const enum kernel of64 = wide ? k##_64 : k16##_64;                                \
        const uint64_t heads = q->batch * q->heads;                                       \
        const uint64_t n = tiles(q->seq, wide ? (rows) : GPT2_HALF_TILE);                 \
        plan(l, features == 32 ? of32 : of64, wide ? n : heads, wide ? heads : n, q,      \
             sizeof *q);                                                                  \
    }

/* clang-format off */
PLAN(embed, embed, EMBED, blocks(EMBED, q->rows * q->width / 4), 1)
PLAN(position, position, POSITION, blocks(POSITION, q->rows * q->width / 4), 1)
PLAN(embed_backward, embed_backward, EMBED_BACKWARD, q->vocab, 1)
PLAN(position_backward, position_backward, POSITION_BACKWARD,
     blocks(POSITION_BACKWARD, q->context * q->width / 4), 1)
PLAN(norm, norm, NORM, q->rows, 1)
PLAN(norm, norm_again, NORM_AGAIN, blocks(NORM_AGAIN, q->rows * q->width / 4), 1)
PLAN(columns, columns, COLUMNS, tiles(q->columns / 4, GPT2_FOLD_COLUMNS), gpt2_chunks(q->rows))
PLAN(fold, fold, FOLD, tiles(q->columns / 4, GPT2_LAST_COLUMNS), q->n)
PLAN(bias, bias, BIAS, blocks(BIAS, q->rows * q->width / 4), 1)
PLAN(gelu, gelu, GELU, blocks(GELU, tiles(q->rows * q->width / 4, 2)), 1)
PLAN(gelu_backward, gelu_backward, GELU_BACKWARD, tiles(q->columns / 4, GPT2_FOLD_COLUMNS),
     gpt2_chunks(q->rows))
PLAN(loss, loss, LOSS, q->rows, 1)
PLAN(loss_backward, loss_backward, LOSS_BACKWARD, q->rows, 1)
PLAN_TILES(attention, ATTENTION, ATTENTION16, GPT2_FORWARD_TILE)
PLAN_HEADS(delta, DELTA, blocks(DELTA_64, q->batch * q->heads * q->seq), 1)
PLAN_TILES(attention_q, ATTENTION_Q, ATTENTION16_Q, GPT2_SCORE_TILE)
PLAN_TILES(attention_kv, ATTENTION_KV, ATTENTION16_KV, GPT2_SCORE_TILE)
/* clang-format on */

/* Whole warps, as many as a row has groups of four columns. */
void gpt2_plan_norm_backward(struct gpt2_launch *l, const struct gpt2_gpu_norm_backward *q)
{
    plan(l, NORM_BACKWARD, tiles(q->rows, GPT2_NORM_CHUNK), 1, q, sizeof *q);
    l->block = (uint32_t)tiles(q->width / 4, 32) * 32;
}
