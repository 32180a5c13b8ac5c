/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the GPU's side needs, in declarations of its own: the
 * program is built without the toolkit's headers and linked with nothing. It works in the context
 * of the stream that it is given, which is the runtime's.
 */
#ifndef GPT2_GPU_CUDA_H
#define GPT2_GPU_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "plan.h"

#define GPT2_CUDA_MOST_KERNELS 32u

/* X(member, symbol, parameters): every call; each returns 0 or a number of the driver's. */
/* clang-format off */
#define GPT2_CUDA_CALLS(X)                                                                         \
    X(error_name, cuGetErrorName, (int error, const char **name))                                  \
    X(error_string, cuGetErrorString, (int error, const char **text))                              \
    X(stream_context, cuStreamGetCtx, (void *stream, void **context))                              \
    X(context_push, cuCtxPushCurrent_v2, (void *context))                                          \
    X(context_pop, cuCtxPopCurrent_v2, (void **context))                                           \
    X(host_alloc, cuMemHostAlloc, (void **base, size_t bytes, unsigned flags))                     \
    X(host_free, cuMemFreeHost, (void *base))                                                      \
    X(copy, cuMemcpyAsync,                                                                         \
      (unsigned long long dst, unsigned long long src, size_t bytes, void *stream))                \
    X(module_load, cuModuleLoadData, (void **module, const void *image))                           \
    X(module_unload, cuModuleUnload, (void *module))                                               \
    X(module_function, cuModuleGetFunction, (void **function, void *module, const char *name))     \
    X(launch, cuLaunchKernel,                                                                      \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,     \
       void **extra))
/* clang-format on */

struct gpt2_cuda {
    void *stream, *context, *module;
    void *functions[GPT2_CUDA_MOST_KERNELS];
    char error[512]; /* the first that happened, for a person */
#define CALL(member, symbol, parameters) int(*member) parameters;
    GPT2_CUDA_CALLS(CALL)
#undef CALL
};

/* All return 0, or a negative errno with error set. What is enqueued goes on the stream. */

/* Finds the driver that the process has, the stream's context, and loads the kernels there. */
int gpt2_cuda_open(struct gpt2_cuda *c, void *stream);
void gpt2_cuda_close(struct gpt2_cuda *c);

/* Makes the context the thread's, until gpt2_cuda_leave(). */
int gpt2_cuda_enter(struct gpt2_cuda *c);
void gpt2_cuda_leave(struct gpt2_cuda *c);

int gpt2_cuda_launch(struct gpt2_cuda *c, const struct gpt2_launch *l);
int gpt2_cuda_copy(struct gpt2_cuda *c, void *dst, const void *src, size_t bytes);

/* Records the sentence, unless there is one already; returns err. */
int gpt2_cuda_fail(struct gpt2_cuda *c, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
