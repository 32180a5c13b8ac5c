/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical kernels on host memory: zero/device.h states their arithmetic, this room does it.
 *
 * A launch is cut into chunks that depend on its arguments only, never on the number of threads or
 * the instruction set; chunks touch disjoint results and may run in any order, on any thread, at
 * once. Every instruction set gives the same bits (of NaNs made by arithmetic: a NaN).
 */
#ifndef ZERO_DEVICE_KERNELS_H
#define ZERO_DEVICE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include <zero/device.h>

#include "machine/isa.h"

/* Elements of a chunk: whole blocks of SUMSQ; what an update reads and writes fits a core's L2. */
#define ZERO__CHUNK (8u * ZERO_SUMSQ_BLOCK)
/* Bytes of a chunk of a plain copy or fill. */
#define ZERO__CHUNK_BYTES (256u * 1024u)
/* Runs of FILL that share a chunk when there are several. */
#define ZERO__FILL_RUNS 64u
/* No argument struct is larger. */
#define ZERO__ARGS_MAX sizeof(struct zero_update_args)

/* An update with everything derived that its elements have in common; zero/device.h has the names.
 */
struct zero__update {
    float *p, *m, *v;
    const void *grad;
    void *out;
    uint32_t grad_dtype, out_dtype; /* out_dtype is ZERO_F32 when out is NULL */
    bool coupled, nesterov, first;
    bool stream;                       /* out goes past the caches */
    float factor, weight_decay, decay; /* decay: 1 - lr * weight_decay */
    float beta2, rest1, rest2, eps;    /* rest: 1 - beta */
    float unbias, rate;                /* 1 / sqrt(1 - beta2^t), -(lr / (1 - beta1^t)) */
    float lr;                          /* negative */
    float momentum, undamped;          /* undamped: 1 - dampening */
    /* States in fewer bytes: p is NULL and `out` and low are the master, m and v are in half. */
    bool packed;
    uint16_t *low, *half_m, *half_v; /* NULL: p, m, v are whole */
    uint64_t number, step;           /* of the first element; of the update */
};

/* One instruction set's loops over elements [first, first + count). */
struct zero__loops {
    const char *name;
    void (*accumulate)(const struct zero_accumulate_args *a, uint64_t first, uint64_t count);
    void (*cast)(const struct zero_cast_args *a, uint64_t first, uint64_t count);
    void (*sum)(const struct zero_sum_args *a, uint64_t first, uint64_t count);
    /* first is a multiple of ZERO_SUMSQ_BLOCK */
    void (*sumsq)(const struct zero_sumsq_args *a, uint64_t first, uint64_t count);
    void (*adamw)(const struct zero__update *u, uint64_t first, uint64_t count);
    void (*sgd)(const struct zero__update *u, uint64_t first, uint64_t count);
    /* The same on states in fewer bytes. */
    void (*adamw_packed)(const struct zero__update *u, uint64_t first, uint64_t count);
    void (*sgd_packed)(const struct zero__update *u, uint64_t first, uint64_t count);
};

extern const struct zero__loops zero__loops_scalar;
#if defined(__x86_64__)
extern const struct zero__loops zero__loops_avx2, zero__loops_avx512;
#endif

/* The loops of an instruction set, or NULL where this machine lacks it. */
const struct zero__loops *zero__loops(enum zero__isa isa);

/* Checks kernel, sizes, types and pointers; says what is wrong. */
int zero__kernel_check(const struct zero_launch *launch);

/* Number of chunks of a checked launch, 0 if there is nothing to do. */
uint64_t zero__kernel_chunks(uint32_t kernel, const void *args);

/* Runs one chunk of a checked launch. */
void zero__kernel_run(const struct zero__loops *loops, uint32_t kernel, const void *args,
                      uint64_t chunk);

/* ZERO_KERNEL_SCALARS as a whole. */
void zero__kernel_scalars(const struct zero_scalars_args *a);

/* Fills *u from the arguments and the scalars of this step; m and v are NULL where the kernel has
 * no use for them. False: this step is skipped. */
bool zero__update_prepare(uint32_t kernel, const struct zero_update_args *a,
                          struct zero__update *u);

#endif
