/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declarations of cuBLAS in zero-gpt2 against the library's own header and the library itself,
 * where they are; a GPU is not needed.
 */
#if defined(__has_include)
#if __has_include(<cublas_v2.h>)
#define HAVE_HEADER 1
#include <cublas_v2.h>
#endif
#endif

#include "examples/gpt2/gpu/blas.h"
#include "tests/tap.h"

static void header(void)
{
#ifdef HAVE_HEADER
    is_int(GPT2_OP_N, CUBLAS_OP_N, "an operand as it is");
    is_int(GPT2_OP_T, CUBLAS_OP_T, "and transposed");
    is_int(GPT2_R_32F, CUDA_R_32F, "fp32");
    is_int(GPT2_R_16F, CUDA_R_16F, "fp16");
    is_int(GPT2_R_16BF, CUDA_R_16BF, "bf16");
    is_int(GPT2_COMPUTE_32F, CUBLAS_COMPUTE_32F, "sums in fp32");
    is_int(GPT2_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT, "the algorithm is the library's choice");
    is_int(GPT2_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED, "not initialised");
    is_int(GPT2_STATUS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED, "no memory");
    is_int(0, CUBLAS_STATUS_SUCCESS, "success");
    is_int(0, MAJOR_VERSION, "what cublasGetProperty() says first");
    is_int(1, MINOR_VERSION, "and then");
    is_int(sizeof(int), sizeof(cublasComputeType_t), "values are passed as ints");
#else
    skip("cuBLAS's header", "cuBLAS is not here");
#endif
}

/* Without a GPU the library is found, has every symbol, and cannot be started. */
static void library(void)
{
    struct gpt2_cuda cuda = {0};
    struct gpt2_blas blas;
    int err = gpt2_blas_open(&blas, &cuda, NULL);

    if (err && strstr(cuda.error, "no cuBLAS")) {
        ok(strstr(cuda.error, "libcublas.so.13, libcublas.so.12") != NULL &&
               strstr(cuda.error, "--cublas") != NULL,
           "without cuBLAS: what was looked for, and what to do");
        skip("cuBLAS", "cuBLAS is not here");
    } else {
        ok(!err || strstr(cuda.error, "cublasCreate()"), "the library has every symbol");
        ok(strncmp(blas.name, "cuBLAS ", 7) == 0, "and says its version");
        diag("%s; %s", blas.name, cuda.error);
    }
    gpt2_blas_close(&blas);
}

int main(void)
{
    header();
    library();
    done();
}
