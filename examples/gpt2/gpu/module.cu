/* SPDX-License-Identifier: Apache-2.0 */
/* The module: every body as a kernel of its own, with C linkage, for cuModuleGetFunction(). */
#include "attention.cuh"
#include "attention16.cuh"
#include "layers.cuh"
#include "loss.cuh"
#include "norm.cuh"
#include "table.h"

#define KERNEL(id, name, params, threads, resident, shared, ...)                                   \
    extern "C" __global__ __launch_bounds__(threads, resident) void name(                          \
        const __grid_constant__ struct params q)                                                   \
    {                                                                                              \
        gpt2_thread t;                                                                             \
        __VA_ARGS__(t, q);                                                                         \
    }
GPT2_GPU_KERNELS(KERNEL)
