/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product of bf16 by oneDNN; see gemm.h. Its cache of primitives makes a call cheap. */
#include "gemm.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

void omp_set_num_threads(int n); /* of the OpenMP runtime that oneDNN runs on */

static bool usable;

void gpt2_gemm16_init(void)
{
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned wanted = (unsigned)dnnl_cpu_isa_avx512_core_bf16;

    usable = (isa & wanted) == wanted;
}

bool gpt2_gemm16_usable(void)
{
    return usable;
}

static int describe(dnnl_memory_desc_t *d, bool transposed, uint32_t rows, uint32_t columns,
                    uint32_t ld, dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {rows, columns};
    const dnnl_dims_t strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides);
}

static int primitive_make(dnnl_engine_t engine, const dnnl_memory_desc_t d[3], float beta,
                          dnnl_primitive_t *primitive)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_matmul_desc_t matmul;
    int err = dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]);

    if (!err)
        err = dnnl_primitive_attr_create(&attr);
    if (!err && beta != 0)
        err = dnnl_post_ops_create(&ops);
    if (!err && beta != 0)
        err = dnnl_post_ops_append_sum(ops, beta);
    if (!err && beta != 0)
        err = dnnl_primitive_attr_set_post_ops(attr, ops);
    if (!err)
        err = dnnl_primitive_desc_create(&pd, &matmul, attr, engine, NULL);
    if (!err)
        err = dnnl_primitive_create(primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    dnnl_post_ops_destroy(ops);
    dnnl_primitive_attr_destroy(attr);
    return err;
}

static int execute(dnnl_engine_t engine, dnnl_primitive_t primitive, const dnnl_memory_desc_t d[3],
                   const void *const data[3])
{
    static const int names[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_exec_arg_t args[3] = {{0}};
    dnnl_stream_t stream = NULL;
    int err = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);

    for (int i = 0; i < 3 && !err; i++) {
        args[i].arg = names[i];
        err = dnnl_memory_create(&args[i].memory, &d[i], engine, (void *)(uintptr_t)data[i]);
    }
    if (!err)
        err = dnnl_primitive_execute(primitive, stream, 3, args);
    if (!err)
        err = dnnl_stream_wait(stream);
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(args[i].memory);
    dnnl_stream_destroy(stream);
    return err;
}

void gpt2_gemm16(bool ta, bool tb, uint32_t m, uint32_t n, uint32_t k, const uint16_t *a,
                 uint32_t lda, const uint16_t *b, uint32_t ldb, float beta, float *c, uint32_t ldc)
{
    const void *const data[3] = {a, b, c};
    dnnl_memory_desc_t d[3];
    dnnl_engine_t engine = NULL;
    dnnl_primitive_t primitive = NULL;
    int err = describe(&d[0], ta, m, k, lda, dnnl_bf16);

    omp_set_num_threads(1); /* of this thread */
    if (!err)
        err = describe(&d[1], tb, k, n, ldb, dnnl_bf16);
    if (!err)
        err = describe(&d[2], false, m, n, ldc, dnnl_f32);
    if (!err)
        err = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (!err)
        err = primitive_make(engine, d, beta, &primitive);
    if (!err)
        err = execute(engine, primitive, d, data);
    dnnl_primitive_destroy(primitive);
    dnnl_engine_destroy(engine);
    if (err) { /* no shape of this model is refused; without memory there is no way on */
        fprintf(stderr, "zero-gpt2: oneDNN cannot multiply %u x %u by %u x %u (status %d)\n", m, k,
                k, n, err);
        exit(1);
    }
}

#else

void gpt2_gemm16_init(void)
{
}

bool gpt2_gemm16_usable(void)
{
    return false;
}

void gpt2_gemm16(bool ta, bool tb, uint32_t m, uint32_t n, uint32_t k, const uint16_t *a,
                 uint32_t lda, const uint16_t *b, uint32_t ldb, float beta, float *c, uint32_t ldc)
{
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb;
    (void)beta, (void)c, (void)ldc;
}

#endif
