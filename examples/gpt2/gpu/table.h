/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All device functions: X(ID, name in the module, struct of its parameters, threads of a block,
 * blocks that a multiprocessor shall hold at once, floats of shared memory, body). The module, the
 * plan and the tests' emulator are made from this list. Numbers in names are features of a head;
 * ATTENTION is of fp32, ATTENTION16 of 16 bits.
 */
#ifndef GPT2_GPU_TABLE_H
#define GPT2_GPU_TABLE_H

#include "tile.h"

/* clang-format off */
#define GPT2_GPU_KERNELS(X)                                                                        \
    X(EMBED, gpt2_embed, gpt2_gpu_embed, 256, 4, 0, embed_body)                                    \
    X(POSITION, gpt2_position, gpt2_gpu_position, 256, 4, 0, position_body)                        \
    X(EMBED_BACKWARD, gpt2_embed_grad, gpt2_gpu_embed_backward, 128, 8, 0, embed_backward_body)    \
    X(POSITION_BACKWARD, gpt2_position_grad, gpt2_gpu_position_backward, 256, 4, 0,                \
      position_backward_body)                                                                      \
    X(NORM, gpt2_norm, gpt2_gpu_norm, 128, 8, GPT2_REDUCTION(128), norm_body)                      \
    X(NORM_AGAIN, gpt2_norm_again, gpt2_gpu_norm, 256, 4, 0, norm_again_body)                      \
    X(NORM_BACKWARD, gpt2_norm_grad, gpt2_gpu_norm_backward, GPT2_NORM_THREADS, 2,                 \
      GPT2_NORM_SHARED, norm_backward_body)                                                        \
    X(COLUMNS, gpt2_columns, gpt2_gpu_columns, GPT2_FOLD_THREADS, 4, GPT2_FOLD_SHARED,             \
      columns_body)                                                                                \
    X(FOLD, gpt2_fold, gpt2_gpu_fold, GPT2_FOLD_THREADS, 4, GPT2_FOLD_SHARED, fold_body)           \
    X(BIAS, gpt2_bias, gpt2_gpu_bias, 256, 4, 0, bias_body)                                        \
    X(GELU, gpt2_gelu, gpt2_gpu_gelu, 256, 4, 0, gelu_body)                                        \
    X(GELU_BACKWARD, gpt2_gelu_grad, gpt2_gpu_gelu_backward, GPT2_FOLD_THREADS, 4,                 \
      GPT2_FOLD_SHARED, gelu_backward_body)                                                        \
    X(ATTENTION_32, gpt2_attention_32, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,              \
      GPT2_ATTENTION_SHARED(32), attention_body<32>)                                               \
    X(ATTENTION_64, gpt2_attention_64, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,              \
      GPT2_ATTENTION_SHARED(64), attention_body<64>)                                               \
    X(DELTA_32, gpt2_delta_32, gpt2_gpu_attention, 128, 8, 0, delta_body<32>)                      \
    X(DELTA_64, gpt2_delta_64, gpt2_gpu_attention, 128, 8, 0, delta_body<64>)                      \
    X(ATTENTION_Q_32, gpt2_attention_q_32, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,          \
      GPT2_ATTENTION_Q_SHARED(32), attention_q_body<32>)                                           \
    X(ATTENTION_Q_64, gpt2_attention_q_64, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,          \
      GPT2_ATTENTION_Q_SHARED(64), attention_q_body<64>)                                           \
    X(ATTENTION_KV_32, gpt2_attention_kv_32, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,        \
      GPT2_ATTENTION_KV_SHARED(32), attention_kv_body<32>)                                         \
    X(ATTENTION_KV_64, gpt2_attention_kv_64, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,        \
      GPT2_ATTENTION_KV_SHARED(64), attention_kv_body<64>)                                         \
    X(ATTENTION16_32, gpt2_attention16_32, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,          \
      GPT2_ATTENTION16_SHARED(32), attention16_body<32>)                                           \
    X(ATTENTION16_64, gpt2_attention16_64, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,          \
      GPT2_ATTENTION16_SHARED(64), attention16_body<64>)                                           \
    X(ATTENTION16_Q_32, gpt2_attention16_q_32, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,      \
      GPT2_ATTENTION16_SHARED(32), attention16_q_body<32>)                                         \
    X(ATTENTION16_Q_64, gpt2_attention16_q_64, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,      \
      GPT2_ATTENTION16_SHARED(64), attention16_q_body<64>)                                         \
    X(ATTENTION16_KV_32, gpt2_attention16_kv_32, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,    \
      GPT2_ATTENTION16_KV_SHARED(32), attention16_kv_body<32>)                                     \
    X(ATTENTION16_KV_64, gpt2_attention16_kv_64, gpt2_gpu_attention, GPT2_ATTENTION_THREADS, 3,    \
      GPT2_ATTENTION16_KV_SHARED(64), attention16_kv_body<64>)                                     \
    X(LOSS, gpt2_loss, gpt2_gpu_loss, 256, 4, GPT2_REDUCTION(256), loss_body)                      \
    X(LOSS_BACKWARD, gpt2_loss_grad, gpt2_gpu_loss_backward, 256, 4, 0, loss_backward_body)
/* clang-format on */

#endif
