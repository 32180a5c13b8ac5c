/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: what the plan says is handed to the driver. */
#include "config.h"

#include "cuda.h"

#include <errno.h>

#define LAUNCHES ZERO_UPDATES_MOST /* planned at a time: updates may have one each */

#ifndef ZERO_CUDA_TOOLKIT
#define ZERO_CUDA_TOOLKIT 0
#endif

/* A GPU that none of the kernels was compiled for has them compiled by the driver. */
static int module_failed(struct zero_device *dev, int result)
{
    const int made = ZERO_CUDA_TOOLKIT, known = dev->driver.version;
    char text[CUDA_ERROR_TEXT];

    if (result != CUDA_NO_BINARY_FOR_GPU && result != CUDA_INVALID_PTX &&
        result != CUDA_UNSUPPORTED_PTX_VERSION)
        return zero__cuda_check(dev, result, "loading the kernels on GPU %d (%s)", dev->index,
                                dev->name);
    return zero__say(&dev->voice, -ENOTSUP,
                     "GPU %d (%s) is none that the kernels were compiled for, and the driver, for "
                     "CUDA %d.%d, does not take their PTX, of CUDA %d.%d (%s): install a driver "
                     "for CUDA %d.%d or later, or build libzero with a toolkit of CUDA %d.%d",
                     dev->index, dev->name, known / 1000, known % 1000 / 10, made / 1000,
                     made % 1000 / 10, zero__cuda_text(&dev->driver, result, text), made / 1000,
                     made % 1000 / 10, known / 1000, known % 1000 / 10);
}

int zero__cuda_kernels_load(struct zero_device *dev)
{
    int result = dev->driver.module_load(&dev->module, zero__cuda_module);
    int err = result ? module_failed(dev, result) : 0;

    for (uint32_t i = 0; i < ZERO__CUDA_N_KERNELS && !err; i++)
        err = zero__cuda_check(
            dev,
            dev->driver.module_function(&dev->functions[i], dev->module, zero__cuda_kernel_name(i)),
            "finding the kernel %s", zero__cuda_kernel_name(i));
    return err;
}

static int hand_over(struct zero_device *dev, struct zero__cuda_launch *l,
                     struct cuda_stream *stream)
{
    size_t bytes = l->params_bytes;
    void *extra[] = {CUDA_PARAMS_BUFFER, l->params, CUDA_PARAMS_BYTES, &bytes, CUDA_PARAMS_END};

    atomic_store_explicit(&dev->last_kernel, l->kernel + 1, memory_order_relaxed);
    return zero__cuda_check(dev,
                            dev->driver.launch(dev->functions[l->kernel], l->grid[0], l->grid[1],
                                               l->grid[2], l->block[0], l->block[1], l->block[2],
                                               l->shared_bytes, stream, NULL, extra),
                            "launching %s", zero__cuda_kernel_name(l->kernel));
}

static int plan_launch(struct zero_device *dev, const struct zero_launch *launch, void *stream)
{
    struct zero__cuda_launch plans[LAUNCHES];
    uint32_t n = 0;
    int err =
        zero__cuda_launch_plan(dev->voice.host, dev->multiprocessors, launch, plans, LAUNCHES, &n);

    for (uint32_t i = 0; i < n && !err; i++)
        err = hand_over(dev, &plans[i], stream);
    return err;
}

/* Runs are independent of each other, so any number of them goes in pieces. */
static int fill_launch(struct zero_device *dev, const struct zero_launch *launch, void *stream)
{
    const struct zero_fill_args *all = launch->args;
    const uint32_t most = LAUNCHES * ZERO__CUDA_FILL_RUNS;
    int err = 0;

    for (uint32_t at = 0; at < all->n && !err; at += most) {
        struct zero_fill_args args = *all;
        struct zero_launch piece = *launch;
        args.n = all->n - at < most ? all->n - at : most;
        args.first += at;
        args.count += at;
        piece.args = &args;
        err = plan_launch(dev, &piece, stream);
    }
    return err;
}

int zero__cuda_launch(struct zero_device *dev, const struct zero_launch *launch, void *stream)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    if (launch->kernel == ZERO_KERNEL_FILL && launch->args &&
        launch->args_bytes == sizeof(struct zero_fill_args))
        err = fill_launch(dev, launch, stream);
    else
        err = plan_launch(dev, launch, stream);
    zero__cuda_leave(dev);
    return err;
}
