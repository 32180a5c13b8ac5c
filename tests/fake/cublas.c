/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cuBLAS without a GPU: products of what the fake driver keeps, on the host, in the order of the
 * stream; sums in fp32, in order. It has the calls that zero-gpt2 makes, and refuses what is
 * malformed. FAKE_CUBLAS_MAJOR: the version that it says it has. FAKE_CUBLAS_NEWER: the first
 * handle is refused, as by one that is newer than the driver.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <zero/types.h>

#include "cuda_driver.h"
#include "cuda_inside.h"

enum {
    OK = 0,
    NOT_INITIALIZED = 1,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13,
    NOT_SUPPORTED = 15,
    REAL_32 = 0,
    REAL_16 = 2,
    REAL_B16 = 14,
    COMPUTE_32 = 68,
};

#define WORKSPACE ((size_t)4 << 20) /* what the real one wants at least */

struct handle {
    struct cuda_stream *stream;
    const void *workspace;
    bool full_sums;
};

struct matrix {
    const void *at;
    uint32_t dtype;
    int ld;
    bool transposed;
};

/* Columns first: element (i, j) of a stored matrix is at i + j * ld. */
struct product {
    int m, n, k;
    struct matrix a, b, c;
    float alpha, beta;
};

FAKE_API int cublasGetProperty(int which, int *value);
FAKE_API int cublasCreate_v2(struct handle **handle);
FAKE_API int cublasDestroy_v2(struct handle *handle);
FAKE_API int cublasSetMathMode(struct handle *handle, int mode);
FAKE_API int cublasSetStream_v2(struct handle *handle, struct cuda_stream *stream);
FAKE_API int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes);
FAKE_API int cublasGemmEx(struct handle *handle, int ta, int tb, int m, int n, int k,
                          const void *alpha, const void *a, int a_type, int lda, const void *b,
                          int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                          int compute, int algorithm);

int cublasGetProperty(int which, int *value)
{
    const char *major = getenv("FAKE_CUBLAS_MAJOR");

    *value = which ? 0 : major ? atoi(major) : 13;
    return OK;
}

int cublasCreate_v2(struct handle **handle)
{
    static bool refused;
    struct fake_cuda_live live;

    if (getenv("FAKE_CUBLAS_NEWER") && !refused) {
        refused = true;
        return NOT_INITIALIZED;
    }
    fake_cuda_live(&live);
    *handle = live.pushed ? calloc(1, sizeof **handle) : NULL; /* it wants a context */
    return *handle ? OK : NOT_INITIALIZED;
}

int cublasDestroy_v2(struct handle *handle)
{
    free(handle);
    return OK;
}

/* Parts of sums in fp32, which is all that is known here: without it nothing is multiplied. */
int cublasSetMathMode(struct handle *handle, int mode)
{
    handle->full_sums = mode == 16;
    return handle->full_sums ? OK : INVALID_VALUE;
}

int cublasSetStream_v2(struct handle *handle, struct cuda_stream *stream)
{
    handle->stream = stream;
    handle->workspace = NULL;
    return OK;
}

int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes)
{
    if (!workspace || (uintptr_t)workspace % 256 || bytes < WORKSPACE)
        return INVALID_VALUE;
    handle->workspace = workspace;
    return OK;
}

static float element(const struct matrix *x, const void *place, int row, int column)
{
    const size_t i = x->transposed ? (size_t)column + (size_t)row * (size_t)x->ld
                                   : (size_t)row + (size_t)column * (size_t)x->ld;

    if (x->dtype == ZERO_F32)
        return ((const float *)place)[i];
    const uint16_t half = ((const uint16_t *)place)[i];
    return x->dtype == ZERO_BF16 ? zero_float_from_bf16(half) : zero_float_from_fp16(half);
}

static void set(const struct matrix *x, void *place, int row, int column, float value)
{
    const size_t i = (size_t)row + (size_t)column * (size_t)x->ld;

    if (x->dtype == ZERO_F32)
        ((float *)place)[i] = value;
    else
        ((uint16_t *)place)[i] =
            x->dtype == ZERO_BF16 ? zero_bf16_from_float(value) : zero_fp16_from_float(value);
}

/* The bytes from the first to the last element. */
static uint64_t extent(const struct matrix *x, int rows, int columns)
{
    const int lines = x->transposed ? rows : columns, each = x->transposed ? columns : rows;

    return ((uint64_t)(lines - 1) * (uint64_t)x->ld + (uint64_t)each) * zero_dtype_bytes(x->dtype);
}

/* When the stream gets there. */
static void multiply(void *arg, int gpu)
{
    struct product *p = arg;
    const void *a = fake_cuda_reach_all(gpu, p->a.at, extent(&p->a, p->m, p->k));
    const void *b = fake_cuda_reach_all(gpu, p->b.at, extent(&p->b, p->k, p->n));
    void *c = fake_cuda_reach_all(gpu, p->c.at, extent(&p->c, p->m, p->n));

    for (int j = 0; a && b && c && j < p->n; j++)
        for (int i = 0; i < p->m; i++) {
            float sum = 0;
            for (int l = 0; l < p->k; l++)
                sum += element(&p->a, a, i, l) * element(&p->b, b, l, j);
            const float old = p->beta != 0 ? p->beta * element(&p->c, c, i, j) : 0;
            set(&p->c, c, i, j, p->alpha * sum + old);
        }
    free(p);
}

/* 0 for one that is not known. */
static uint32_t dtype_of(int type)
{
    return type == REAL_32    ? ZERO_F32
           : type == REAL_16  ? ZERO_F16
           : type == REAL_B16 ? ZERO_BF16
                              : 0;
}

static bool is_malformed(const struct product *p)
{
    return p->m < 1 || p->n < 1 || p->k < 1 || p->a.ld < (p->a.transposed ? p->k : p->m) ||
           p->b.ld < (p->b.transposed ? p->n : p->k) || p->c.ld < p->m;
}

int cublasGemmEx(struct handle *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    const struct product p = {.m = m,
                              .n = n,
                              .k = k,
                              .a = {a, dtype_of(a_type), lda, ta != 0},
                              .b = {b, dtype_of(b_type), ldb, tb != 0},
                              .c = {c, dtype_of(c_type), ldc, false},
                              .alpha = *(const float *)alpha,
                              .beta = *(const float *)beta};
    struct product *copy;

    (void)algorithm;
    if (is_malformed(&p) || !handle->workspace || !handle->full_sums)
        return INVALID_VALUE;
    if (!p.a.dtype || p.a.dtype != p.b.dtype || (p.c.dtype != p.a.dtype && p.c.dtype != ZERO_F32) ||
        compute != COMPUTE_32)
        return NOT_SUPPORTED;
    copy = malloc(sizeof *copy);
    if (!copy)
        return EXECUTION_FAILED;
    *copy = p;
    if (fake_cuda_enqueue(handle->stream, multiply, copy)) {
        free(copy);
        return EXECUTION_FAILED;
    }
    return OK;
}
