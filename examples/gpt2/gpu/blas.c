/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS; see blas.h. */
#include "blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <zero/types.h>

#define OLDEST 11 /* the first that multiplies bf16 */

static const char remedy[] = "install cuBLAS (it is part of the CUDA toolkit, and of Python's "
                             "package nvidia-cublas), have its folder in LD_LIBRARY_PATH or name "
                             "the file with --cublas, or train on the host with ZERO_DEVICE=host";

static const char *const names[] = {
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublas.so.11",
    "/usr/local/cuda/lib64/libcublas.so",
};

/* It has exit handlers of its own, so it stays. */
static void *load(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static int symbols_find(struct gpt2_blas *b, void *library)
{
    const char *missing = NULL;
    void *symbol;

#define FIND(member, name, parameters)          \
    symbol = dlsym(library, #name);             \
    memcpy(&b->member, &symbol, sizeof symbol); \
    if (!symbol && !missing)                    \
        missing = #name;
    GPT2_BLAS_CALLS(FIND)
#undef FIND
    return missing ? gpt2_cuda_fail(b->cuda, -ENOTSUP,
                                    "the cuBLAS that was found has no %s, it is older than %d.0, "
                                    "or another library: %s",
                                    missing, OLDEST, remedy)
                   : 0;
}

static int version_check(struct gpt2_blas *b)
{
    int major = 0, minor = 0;

    b->property(0, &major);
    b->property(1, &minor);
    snprintf(b->name, sizeof b->name, "cuBLAS %d.%d", major, minor);
    return major < OLDEST ? gpt2_cuda_fail(b->cuda, -ENOTSUP,
                                           "%s is too old, %d.0 is the oldest that works: %s",
                                           b->name, OLDEST, remedy)
                          : 0;
}

static int check(struct gpt2_blas *b, int status, const char *what)
{
    const char *why = "";

    if (!status)
        return 0;
    if (status == GPT2_STATUS_NOT_INITIALIZED)
        why = ": is the driver older than the library?";
    else if (status == GPT2_STATUS_ALLOC_FAILED)
        why = ": no memory of the GPU is left for it; see ZERO_MEMORY_LIMIT";
    return gpt2_cuda_fail(b->cuda, status == GPT2_STATUS_ALLOC_FAILED ? -ENOMEM : -EIO,
                          "%s: %s fails%s "
                          "(status %d)",
                          b->name, what, why, status);
}

static int library_use(struct gpt2_blas *b, void *library)
{
    int err = symbols_find(b, library);

    if (!err)
        err = version_check(b);
    if (!err)
        err = check(b, b->create(&b->handle), "cublasCreate()");
    if (!err)
        err = check(b, b->math(b->handle, GPT2_MATH_FULL_SUMS), "cublasSetMathMode()");
    if (err)
        gpt2_blas_close(b);
    return err;
}

int gpt2_blas_open(struct gpt2_blas *b, struct gpt2_cuda *cuda, const char *path)
{
    char tried[160] = "", broken[256] = ""; /* broken: why one that is there cannot be loaded */
    void *library;
    int err = 0;

    *b = (struct gpt2_blas){.cuda = cuda};
    if (path) {
        library = load(path);
        return library ? library_use(b, library)
                       : gpt2_cuda_fail(cuda, -ENOENT, "--cublas %s cannot be loaded (%s): %s",
                                        path, dlerror(), remedy);
    }
    /* The newest may be newer than the driver: then an older one serves. */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(tried);
        library = load(names[i]);
        if (library) {
            err = library_use(b, library);
            if (!err) {
                cuda->error[0] = '\0'; /* of those that were passed over */
                return 0;
            }
        } else {
            const char *why = dlerror(); /* of the file itself: it is not there */
            if (why && !*broken && strncmp(why, names[i], strlen(names[i])) != 0)
                snprintf(broken, sizeof broken, "%s", why);
        }
        snprintf(tried + n, sizeof tried - n, "%s%s", n ? ", " : "", names[i]);
    }
    return err ? err
               : gpt2_cuda_fail(cuda, -ENOENT,
                                "no cuBLAS, which computes the matrix products on the GPU: %s%s%s: "
                                "%s",
                                *broken ? "" : "there is no ", *broken ? broken : tried,
                                *broken ? " (a library that it needs)" : "", remedy);
}

void gpt2_blas_close(struct gpt2_blas *b)
{
    if (b->handle)
        b->destroy(b->handle);
    b->handle = NULL;
}

/* A new stream resets the workspace, so this is the order. */
int gpt2_blas_begin(struct gpt2_blas *b, void *workspace)
{
    int err = check(b, b->stream(b->handle, b->cuda->stream), "cublasSetStream()");

    return err ? err
               : check(b, b->workspace(b->handle, workspace, GPT2_BLAS_BYTES),
                       "cublasSetWorkspace()");
}

static int type_of(uint32_t dtype)
{
    return dtype == ZERO_F32 ? GPT2_R_32F : dtype == ZERO_BF16 ? GPT2_R_16BF : GPT2_R_16F;
}

/* cuBLAS has columns where we have rows: what it computes is the transposed product. */
int gpt2_blas_product(struct gpt2_blas *b, bool ta, bool tb, size_t m, size_t n, size_t k,
                      struct gpt2_matrix a_, struct gpt2_matrix b_, float beta,
                      struct gpt2_matrix c_)
{
    const float one = 1;

    if (m > INT_MAX || n > INT_MAX || k > INT_MAX)
        return gpt2_cuda_fail(b->cuda, -EOVERFLOW,
                              "a matrix of %zu x %zu x %zu is too large for cuBLAS: take a smaller "
                              "--batch",
                              m, n, k);
    return check(b,
                 b->gemm(b->handle, tb ? GPT2_OP_T : GPT2_OP_N, ta ? GPT2_OP_T : GPT2_OP_N, (int)n,
                         (int)m, (int)k, &one, b_.at, type_of(b_.dtype), (int)b_.ld, a_.at,
                         type_of(a_.dtype), (int)a_.ld, &beta, c_.at, type_of(c_.dtype), (int)c_.ld,
                         GPT2_COMPUTE_32F, GPT2_GEMM_DEFAULT),
                 "cublasGemmEx()");
}
