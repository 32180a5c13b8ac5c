/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's device functions for the emulated grid, from the list that makes the module. */
#include "../../plugins/cuda/kernel/table.h"
#include "../../plugins/cuda/kernel/ordered.cuh"
#include "../../plugins/cuda/kernel/update.cuh"
#include "cuda_thread.h"

#define RUN(id, name, params, threads, resident, ...)                                              \
    static void run_##name(fake_thread &t, const void *q)                                          \
    {                                                                                              \
        __VA_ARGS__(t, *static_cast<const struct params *>(q));                                    \
    }
ZERO__CUDA_KERNELS(RUN)

const fake_cuda_function fake_cuda_functions[] = {
#define ENTRY(id, name, params, threads, resident, ...)                                            \
    {#name, sizeof(struct params), threads, run_##name},
    ZERO__CUDA_KERNELS(ENTRY)
};

const uint32_t fake_cuda_n_functions = sizeof fake_cuda_functions / sizeof *fake_cuda_functions;
