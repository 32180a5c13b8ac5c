/* SPDX-License-Identifier: Apache-2.0 */
/* Where there was no compiler for the GPU's kernels. */
#include <errno.h>

#include "gpu.h"

int gpt2_gpu_open(struct gpt2_gpu *g, const struct gpt2_shape *s, const char *cublas, void *stream,
                  int (*wait)(void *arg), void *wait_arg)
{
    (void)s, (void)cublas, (void)stream, (void)wait, (void)wait_arg;
    *g =
        (struct gpt2_gpu){.cuda.error = "this zero-gpt2 was built without nvcc, so that it has no "
                                        "kernels for a GPU: build it where the CUDA toolkit is, or "
                                        "train on the host with ZERO_DEVICE=host"};
    return -ENOSYS;
}

void gpt2_gpu_close(struct gpt2_gpu *g)
{
    (void)g;
}

const struct gpt2_math gpt2_gpu_math = {.begin = NULL};
