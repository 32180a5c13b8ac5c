/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a launch of zero/device.h to device functions, grids and parameters. Pure: no driver is
 * called, no device memory is looked at, nothing is kept. Names and parameters of the device
 * functions are those of the module, zero__cuda_module.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_LAUNCH_H
#define ZERO_PLUGINS_CUDA_KERNEL_LAUNCH_H

#include <stddef.h>

#include "params.h"
#include "table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zero__cuda_kernel {
#define ID(id, ...) ZERO__CUDA_##id,
    ZERO__CUDA_KERNELS(ID)
#undef ID
        ZERO__CUDA_N_KERNELS
};

/* One device launch. `params` is the function's only parameter, a struct by value. */
struct zero__cuda_launch {
    uint32_t kernel; /* enum zero__cuda_kernel */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; /* dynamic; below the 48 KiB that need no leave */
    uint32_t params_bytes;
    __attribute__((aligned(16))) unsigned char params[ZERO__CUDA_PARAMS_MAX];
};

/* Name of a device function in the module, NULL for an unknown one. */
const char *zero__cuda_kernel_name(uint32_t kernel);

/*
 * Plans a launch for a device with that many multiprocessors; refuses what the host device refuses,
 * in the same words. *n is the number of device launches, in any order; 0 where there is nothing to
 * do. One is enough but for FILL, which takes one for every ZERO__CUDA_FILL_RUNS runs that are not
 * empty, and UPDATES, which may take one for each; more than `max` is -ENOSPC: FILL's runs are
 * independent, so its caller hands them over in pieces of max * ZERO__CUDA_FILL_RUNS.
 */
int zero__cuda_launch_plan(const struct zero_host *host, uint32_t multiprocessors,
                           const struct zero_launch *l, struct zero__cuda_launch *out, uint32_t max,
                           uint32_t *n);

/* The module for cuModuleLoadData(): code for several devices, and PTX for later ones. */
extern const unsigned char zero__cuda_module[];
extern const size_t zero__cuda_module_bytes;

#ifdef __cplusplus
}
#endif
#endif
