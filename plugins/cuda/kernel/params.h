/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of the device functions, one struct each, passed by value: written by the plan on the
 * host, read by the kernels. Sizes are multiples of 8, pointers are device addresses.
 */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_PARAMS_H
#define ZERO_PLUGINS_CUDA_KERNEL_PARAMS_H

#include <zero/device.h>

/* Bytes of the largest one. */
#define ZERO__CUDA_PARAMS_MAX 1792u
/* Runs of FILL that one launch zeroes. */
#define ZERO__CUDA_FILL_RUNS 30u

/* Vectors that a thread has on their way at once: of plain streams, of an update's several. */
#define ZERO__CUDA_BATCH 4u
#define ZERO__CUDA_UPDATE_BATCH 2u

/* Shared memory of a block, in bytes. SUMSQ holds two of its tiles, a warp's worth of lanes; the 16
 * elements between them keep the lanes of both out of each other's banks. */
#define ZERO__CUDA_SUMSQ_TILES 2u
#define ZERO__CUDA_SUMSQ_STRIDE (ZERO_SUMSQ_BLOCK + 16u)
#define ZERO__CUDA_SUMSQ_LANES(width) (ZERO__CUDA_SUMSQ_TILES * ZERO__CUDA_SUMSQ_STRIDE * (width))
#define ZERO__CUDA_SUMSQ_SHARED(width) \
    (ZERO__CUDA_SUMSQ_LANES(width) + ZERO__CUDA_SUMSQ_TILES * 16u * 8u)
#define ZERO__CUDA_TOTAL_THREADS 256u
#define ZERO__CUDA_LANES_SHARED (ZERO_TOTAL_LANES * 8u)
#define ZERO__CUDA_UPDATE_SHARED ((uint32_t)sizeof(struct zero__cuda_factors))

/*
 * How `count` elements are cut: `groups` vectors from element `head` on, at which every array is
 * aligned to its own vector; what lies before and behind goes element by element. Arrays that are
 * nowhere aligned at once have no groups.
 */
struct zero__cuda_span {
    uint64_t head, groups, count;
};

struct zero__cuda_fill {
    unsigned char *dst;
    uint64_t n;
    struct {
        uint64_t first, count; /* bytes */
    } run[ZERO__CUDA_FILL_RUNS];
};

struct zero__cuda_accumulate {
    float *acc;
    const void *x;
    struct zero__cuda_span span;
    uint32_t x_dtype, beta;
};

struct zero__cuda_cast {
    void *dst;
    const void *x;
    struct zero__cuda_span span;
    uint32_t dst_dtype, x_dtype;
};

struct zero__cuda_sum {
    void *dst;
    const float *partial; /* or NULL */
    const void *src[ZERO_SUM_SOURCES];
    struct zero__cuda_span span;
    uint32_t n, src_dtype, dst_dtype, accumulate;
    float scale;
    uint32_t reserved;
};

struct zero__cuda_sumsq {
    double *partial;
    const void *x;
    uint64_t count;
    uint32_t dtype, aligned; /* x is, to a vector */
};

struct zero__cuda_total {
    double *total;
    const double *x;
    uint64_t count;
};

struct zero__cuda_scalars {
    struct zero_scalars_args args;
};

/* What of zero_update_args the updates of a launch may have each its own. */
struct zero__cuda_run {
    float *p;    /* or NULL: out and low */
    void *m, *v; /* NULL: unused */
    const void *grad;
    void *out;     /* or NULL */
    uint16_t *low; /* or NULL */
    struct zero__cuda_span span;
    uint64_t first;
    uint32_t first_block, blocks; /* whose it is, of the grid's */
    float lr, weight_decay;
    float decay; /* 1 - lr * weight_decay */
    uint32_t reserved;
};

/* The rest of it, and what all elements share and no step changes. */
struct zero__cuda_update {
    const struct zero_scalars *scalars;
    uint32_t grad_dtype, out_dtype;
    uint32_t coupled, nesterov;
    float beta1, beta2, eps, momentum;
    float rest1, rest2, undamped; /* 1 - beta1, 1 - beta2, 1 - dampening */
    uint32_t n;
    struct zero__cuda_run run[ZERO_UPDATES_MOST];
};

/* What an update reads from the step's scalars, derived once per block. */
struct zero__cuda_factors {
    float factor, unbias, rate; /* 1 / sqrt(1 - beta2^t), -(lr / (1 - beta1^t)) */
    uint32_t skip, first_step, step;
};

#endif
