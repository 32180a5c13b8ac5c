/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All device functions: X(ID, name in the module, struct of its parameters, threads of a block,
 * blocks that a multiprocessor shall hold at once, body). The module, the plan and the tests'
 * emulator are made from this list.
 *
 * Functions are apart where the widths of what they read and write differ (numbers in the names:
 * bits). Whether 16 bits mean bf16 or fp16 is a parameter: it costs a uniform branch between the
 * loads and the arithmetic, and spares three quarters of the module.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_TABLE_H
#define ZERO_PLUGINS_CUDA_KERNEL_TABLE_H

/* clang-format off */
#define ZERO__CUDA_KERNELS(X)                                                                      \
    X(FILL, zero_fill, zero__cuda_fill, 256, 8, fill_body)                                         \
    X(ACCUMULATE_32, zero_accumulate_32, zero__cuda_accumulate, 256, 4, accumulate_body<4>)        \
    X(ACCUMULATE_16, zero_accumulate_16, zero__cuda_accumulate, 256, 4, accumulate_body<2>)        \
    X(CAST_32_32, zero_cast_32_32, zero__cuda_cast, 256, 4, cast_body<4, 4>)                       \
    X(CAST_32_16, zero_cast_32_16, zero__cuda_cast, 256, 4, cast_body<4, 2>)                       \
    X(CAST_16_32, zero_cast_16_32, zero__cuda_cast, 256, 4, cast_body<2, 4>)                       \
    X(CAST_16_16, zero_cast_16_16, zero__cuda_cast, 256, 4, cast_body<2, 2>)                       \
    X(SUM_32_32, zero_sum_32_32, zero__cuda_sum, 256, 4, sum_body<4, 4>)                           \
    X(SUM_32_16, zero_sum_32_16, zero__cuda_sum, 256, 4, sum_body<4, 2>)                           \
    X(SUM_16_32, zero_sum_16_32, zero__cuda_sum, 256, 4, sum_body<2, 4>)                           \
    X(SUM_16_16, zero_sum_16_16, zero__cuda_sum, 256, 4, sum_body<2, 2>)                           \
    X(SUMSQ_32, zero_sumsq_32, zero__cuda_sumsq, 128, 6, sumsq_body<4>)                            \
    X(SUMSQ_16, zero_sumsq_16, zero__cuda_sumsq, 128, 8, sumsq_body<2>)                           \
    X(TOTAL, zero_total, zero__cuda_total, ZERO__CUDA_TOTAL_THREADS, 1, total_body)                \
    X(SCALARS, zero_scalars, zero__cuda_scalars, 32, 1, scalars_body)                              \
    X(ADAMW_G32_P32_S32, zero_adamw_g32_p32_s32, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 4, 4, 4>)                                                                 \
    X(ADAMW_G32_P32_S16, zero_adamw_g32_p32_s16, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 4, 4, 2>)                                                                 \
    X(ADAMW_G32_P16_S32, zero_adamw_g32_p16_s32, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 4, 2, 4>)                                                                 \
    X(ADAMW_G32_P16_S16, zero_adamw_g32_p16_s16, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 4, 2, 2>)                                                                 \
    X(ADAMW_G16_P32_S32, zero_adamw_g16_p32_s32, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 2, 4, 4>)                                                                 \
    X(ADAMW_G16_P32_S16, zero_adamw_g16_p32_s16, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 2, 4, 2>)                                                                 \
    X(ADAMW_G16_P16_S32, zero_adamw_g16_p16_s32, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 2, 2, 4>)                                                                 \
    X(ADAMW_G16_P16_S16, zero_adamw_g16_p16_s16, zero__cuda_update, 256, 4,                        \
      update_body<adamw, 2, 2, 2>)                                                                 \
    X(SGD_G32_P32, zero_sgd_g32_p32, zero__cuda_update, 256, 4, update_body<sgd, 4, 4, 0>)         \
    X(SGD_G32_P16, zero_sgd_g32_p16, zero__cuda_update, 256, 4, update_body<sgd, 4, 2, 0>)         \
    X(SGD_G16_P32, zero_sgd_g16_p32, zero__cuda_update, 256, 4, update_body<sgd, 2, 4, 0>)         \
    X(SGD_G16_P16, zero_sgd_g16_p16, zero__cuda_update, 256, 4, update_body<sgd, 2, 2, 0>)         \
    X(SGD_G32_P32_S32, zero_sgd_g32_p32_s32, zero__cuda_update, 256, 4, update_body<sgd, 4, 4, 4>) \
    X(SGD_G32_P32_S16, zero_sgd_g32_p32_s16, zero__cuda_update, 256, 4, update_body<sgd, 4, 4, 2>) \
    X(SGD_G32_P16_S32, zero_sgd_g32_p16_s32, zero__cuda_update, 256, 4, update_body<sgd, 4, 2, 4>) \
    X(SGD_G32_P16_S16, zero_sgd_g32_p16_s16, zero__cuda_update, 256, 4, update_body<sgd, 4, 2, 2>) \
    X(SGD_G16_P32_S32, zero_sgd_g16_p32_s32, zero__cuda_update, 256, 4, update_body<sgd, 2, 4, 4>) \
    X(SGD_G16_P32_S16, zero_sgd_g16_p32_s16, zero__cuda_update, 256, 4, update_body<sgd, 2, 4, 2>) \
    X(SGD_G16_P16_S32, zero_sgd_g16_p16_s32, zero__cuda_update, 256, 4, update_body<sgd, 2, 2, 4>) \
    X(SGD_G16_P16_S16, zero_sgd_g16_p16_s16, zero__cuda_update, 256, 4, update_body<sgd, 2, 2, 2>)
/* clang-format on */

#endif
