/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An emulated grid: runs the bodies of the device functions (plugins/cuda/kernel and
 * examples/gpt2/gpu) on host memory,
 * every thread of every block, barriers and shared memory included, and looks for what a device
 * would punish only now and then:
 *
 * - a barrier that not all threads of a block reach, or not the same one;
 * - shared memory that one thread writes and another one touches between the same two barriers;
 *   that is read before anybody wrote it; that lies outside of what the launch asked for;
 * - vectors at addresses that are not aligned to them;
 * - shared memory that is read while bytes are on their way to it;
 * - products and exchanges of a warp to which not all of its 32 threads come;
 * - blocks and threads run in an order that the seed shuffles, threads anew after each barrier.
 *
 * Global memory is the caller's; whoever tests puts guards around it. Any number of threads may run
 * grids at once.
 */
#ifndef ZERO_TESTS_FAKE_CUDA_GRID_H
#define ZERO_TESTS_FAKE_CUDA_GRID_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A place in a body where threads meet or a bound is asked. */
struct fake_cuda_site {
    const char *file;
    int line;
    int barrier; /* 1: a barrier, 0: a bound */
};

#define FAKE_CUDA_SITES 64

/* Every place that runs came by; only while it is asked for. */
struct fake_cuda_sites {
    uint32_t n;
    struct fake_cuda_site at[FAKE_CUDA_SITES];
};

struct fake_cuda_options {
    uint64_t seed;
    struct fake_cuda_sites *sites; /* or NULL */
    /* Or NULL: the place that is broken. A barrier is not there; a bound n is n + slack. */
    const struct fake_cuda_site *broken;
    uint64_t slack;
};

/*
 * Number of a device function: the plugin's as in enum zero__cuda_kernel, those of zero-gpt2 behind
 * them; UINT32_MAX for an unknown name.
 */
uint32_t fake_cuda_kernel_find(const char *name);

/* Would a device take the launch, with so many bytes of parameters? */
bool fake_cuda_may_launch(uint32_t kernel, const uint32_t grid[3], const uint32_t block[3],
                          uint32_t shared_bytes, uint64_t params_bytes);

/*
 * Runs a launch and returns 0; -EINVAL for one that no device would start, -EFAULT where a thread
 * did something wrong, with a sentence in error.
 */
int fake_cuda_run(uint32_t kernel, const uint32_t grid[3], const uint32_t block[3],
                  uint32_t shared_bytes, const void *params, char *error, size_t n);

int fake_cuda_run_with(const struct fake_cuda_options *options, uint32_t kernel,
                       const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                       const void *params, char *error, size_t n);

#ifdef __cplusplus
}
#endif
#endif
