/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLAS, which is opened when it is wanted and not linked. Operands are of one
 * type, sums fp32.
 */
#ifndef GPT2_GPU_BLAS_H
#define GPT2_GPU_BLAS_H

#include <stdbool.h>

#include "cuda.h"

/* Scratch of the library, which allocates nothing of its own in a step then; NVIDIA's advice. */
#define GPT2_BLAS_BYTES ((size_t)32 << 20)

/* Values of the library's, by its names for them without the prefix. */
enum gpt2_blas_value {
    GPT2_OP_N = 0,
    GPT2_OP_T = 1,
    GPT2_R_32F = 0, /* cudaDataType */
    GPT2_R_16F = 2,
    GPT2_R_16BF = 14,
    GPT2_COMPUTE_32F = 68, /* fp32 sums, and products of fp32 that are not cut */
    GPT2_GEMM_DEFAULT = -1,
    GPT2_MATH_FULL_SUMS = 16, /* DISALLOW_REDUCED_PRECISION_REDUCTION: also of parts of a sum */
    GPT2_STATUS_NOT_INITIALIZED = 1,
    GPT2_STATUS_ALLOC_FAILED = 3,
};

/* X(member, symbol, parameters): every call; each returns 0 or a cublasStatus_t. */
/* clang-format off */
#define GPT2_BLAS_CALLS(X)                                                                         \
    X(property, cublasGetProperty, (int which, int *value))                                        \
    X(create, cublasCreate_v2, (void **handle))                                                    \
    X(math, cublasSetMathMode, (void *handle, int mode))                                           \
    X(destroy, cublasDestroy_v2, (void *handle))                                                   \
    X(stream, cublasSetStream_v2, (void *handle, void *stream))                                    \
    X(workspace, cublasSetWorkspace_v2, (void *handle, void *workspace, size_t bytes))             \
    X(gemm, cublasGemmEx,                                                                          \
      (void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,        \
       int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,         \
       int c_type, int ldc, int compute, int algorithm))
/* clang-format on */

struct gpt2_blas {
    struct gpt2_cuda *cuda; /* where errors go */
    void *handle;
    char name[32]; /* "cuBLAS 13.1" */
#define CALL(member, symbol, parameters) int(*member) parameters;
    GPT2_BLAS_CALLS(CALL)
#undef CALL
};

/* A stored matrix: `ld` elements from a row to the next. */
struct gpt2_matrix {
    void *at;
    uint32_t dtype, ld;
};

/*
 * All return 0, or a negative errno with the cuda's error set; its context is current. `path`: the
 * library, by name or as a path; NULL: those that are known, the newest first.
 */
int gpt2_blas_open(struct gpt2_blas *b, struct gpt2_cuda *cuda, const char *path);
void gpt2_blas_close(struct gpt2_blas *b);

/* What is used from now on as scratch, GPT2_BLAS_BYTES. */
int gpt2_blas_begin(struct gpt2_blas *b, void *workspace);

/* C = op(A) op(B) + beta C, row-major; op(A) is m × k, op(B) k × n; beta 0 or 1. */
int gpt2_blas_product(struct gpt2_blas *b, bool ta, bool tb, size_t m, size_t n, size_t k,
                      struct gpt2_matrix a_, struct gpt2_matrix b_, float beta,
                      struct gpt2_matrix c_);

#endif
