/* SPDX-License-Identifier: Apache-2.0 */
/* The driver, the context and the kernels; see cuda.h. */
#include "cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */

/* In the list of a launch's extras: CU_LAUNCH_PARAM_… */
#define PARAMS_END ((void *)0)
#define PARAMS_BUFFER ((void *)1)
#define PARAMS_BYTES ((void *)2)

int gpt2_cuda_fail(struct gpt2_cuda *c, int err, const char *fmt, ...)
{
    va_list ap;

    if (*c->error)
        return err;
    va_start(ap, fmt);
    vsnprintf(c->error, sizeof c->error, fmt, ap);
    va_end(ap);
    return err;
}

static int check(struct gpt2_cuda *c, int result, const char *what, const char *which)
{
    const char *name = NULL, *text = NULL;

    if (!result)
        return 0;
    c->error_name(result, &name);
    c->error_string(result, &text);
    return gpt2_cuda_fail(c, result == OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s%s on the GPU: %s (%s)",
                          what, which, name ? name : "an unknown error", text ? text : "no text");
}

/* The runtime's device has opened the driver already, so it is there. */
static int symbols_find(struct gpt2_cuda *c)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), *symbol;
    const char *missing = NULL;

    if (!library)
        return gpt2_cuda_fail(c, -ENODEV,
                              "no NVIDIA driver: %s: install it (nvidia-smi shows whether it "
                              "works), or train on the host with ZERO_DEVICE=host",
                              dlerror());
/* ISO C has no cast from void * to a function. */
#define FIND(member, name, parameters)          \
    symbol = dlsym(library, #name);             \
    memcpy(&c->member, &symbol, sizeof symbol); \
    if (!symbol && !missing)                    \
        missing = #name;
    GPT2_CUDA_CALLS(FIND)
#undef FIND
    return missing ? gpt2_cuda_fail(c, -ENODEV,
                                    LIBRARY " has no %s: the NVIDIA driver is too old; install one "
                                            "for CUDA 12 or later",
                                    missing)
                   : 0;
}

static int kernels_load(struct gpt2_cuda *c)
{
    int err = check(c, c->module_load(&c->module, gpt2_gpu_module), "loading the kernels", "");

    for (uint32_t i = 0; i < gpt2_n_kernels() && !err; i++)
        err = check(c, c->module_function(&c->functions[i], c->module, gpt2_kernel_name(i)),
                    "finding the kernel ", gpt2_kernel_name(i));
    return err;
}

int gpt2_cuda_open(struct gpt2_cuda *c, void *stream)
{
    int err;

    *c = (struct gpt2_cuda){.stream = stream};
    err = gpt2_n_kernels() > GPT2_CUDA_MOST_KERNELS ? -EOVERFLOW : symbols_find(c);
    if (!err)
        err = check(c, c->stream_context(stream, &c->context), "finding the stream's context", "");
    if (!err)
        err = gpt2_cuda_enter(c);
    if (err)
        return err;
    err = kernels_load(c);
    gpt2_cuda_leave(c);
    return err;
}

void gpt2_cuda_close(struct gpt2_cuda *c)
{
    if (c->module && !gpt2_cuda_enter(c)) {
        c->module_unload(c->module);
        gpt2_cuda_leave(c);
    }
    c->module = NULL;
}

int gpt2_cuda_enter(struct gpt2_cuda *c)
{
    return check(c, c->context_push(c->context), "entering the context", "");
}

void gpt2_cuda_leave(struct gpt2_cuda *c)
{
    void *mine;

    c->context_pop(&mine);
}

int gpt2_cuda_launch(struct gpt2_cuda *c, const struct gpt2_launch *l)
{
    size_t bytes = l->params_bytes;
    void *extra[] = {PARAMS_BUFFER, (void *)l->params, PARAMS_BYTES, &bytes, PARAMS_END};

    return check(c,
                 c->launch(c->functions[l->kernel], l->grid[0], l->grid[1], 1, l->block, 1, 1,
                           l->shared_bytes, c->stream, NULL, extra),
                 "launching ", gpt2_kernel_name(l->kernel));
}

int gpt2_cuda_copy(struct gpt2_cuda *c, void *dst, const void *src, size_t bytes)
{
    return check(c, c->copy((uintptr_t)dst, (uintptr_t)src, bytes, c->stream), "copying", "");
}
