/* SPDX-License-Identifier: Apache-2.0 */
/* The module: every body as a kernel of its own, with C linkage, for cuModuleGetFunction(). */
#include "ordered.cuh"
#include "table.h"
#include "update.cuh"

#define KERNEL(id, name, params, threads, resident, ...)                                           \
    extern "C" __global__ __launch_bounds__(threads, resident) void name(                          \
        const __grid_constant__ struct params q)                                                   \
    {                                                                                              \
        device_thread t;                                                                           \
        __VA_ARGS__(t, q);                                                                         \
    }
ZERO__CUDA_KERNELS(KERNEL)
