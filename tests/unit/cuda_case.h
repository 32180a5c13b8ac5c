/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the CUDA kernels: a launch with all its memory, drawn from a seed for one device
 * function, run by the host's kernel and by the emulated grid on copies, and compared bit by bit.
 * Every array lies between two pages that nobody may touch, often against one of them, with a
 * pattern where it does not reach.
 */
#ifndef ZERO_TESTS_UNIT_CUDA_CASE_H
#define ZERO_TESTS_UNIT_CUDA_CASE_H

#include "kernel.h"

#include "../../plugins/cuda/kernel/launch.h"
#include "../fake/cuda_grid.h"

#define CASE_FIELDS 20u
#define CASE_RUNS 200u /* of FILL */

/* How an array is compared. */
enum case_kind {
    CASE_EXACT,   /* every bit */
    CASE_NUMBERS, /* of dtype: a NaN is a NaN */
    CASE_LOW,     /* lower halves of the array before: what of a NaN does not matter */
    CASE_SCALARS, /* struct zero_scalars */
};

/* An array of a launch. */
struct case_field {
    void **slot, **alias; /* where its address goes, alias or NULL */
    uint64_t count;
    uint32_t width, dtype; /* of an element */
    enum case_kind kind;
    uint64_t offset; /* in its region, set by case_place() */
};

struct cuda_case {
    uint32_t function; /* enum zero__cuda_kernel */
    uint32_t kernel;
    uint32_t multiprocessors;
    union {
        struct zero_fill_args fill;
        struct zero_accumulate_args accumulate;
        struct zero_cast_args cast;
        struct zero_sumsq_args sumsq;
        struct zero_total_args total;
        struct zero_scalars_args scalars;
        struct zero_update_args update;
        struct zero_sum_args sum;
    } args;
    uint32_t args_bytes;
    struct case_field field[CASE_FIELDS];
    uint32_t n_fields;
    /* What arguments point at on the host. */
    void *src[ZERO_SUM_SOURCES];
    uint64_t piece[ZERO_UPDATES_MOST]; /* of an update that goes as several; or n_pieces is 0 */
    uint32_t n_pieces;
    uint64_t first[CASE_RUNS], count[CASE_RUNS];
    char error[300];
};

/* Two copies of the memory of a case. */
struct case_memory {
    unsigned char *region[2][CASE_FIELDS];
    /* Runs a launch on the second copy, with this as arg; NULL: the emulated grid does. */
    int (*launch)(void *arg, const struct zero__cuda_launch *l, char *error, size_t n);
};

void case_memory_open(struct case_memory *mem);
void case_memory_close(struct case_memory *mem);

/* Draws a launch of a device function: sizes, types, variants, everything but the values. */
void case_draw(struct cuda_case *c, uint32_t function, uint64_t *seed);

/* Gives the arrays of a drawn case their places and values. */
void case_place(struct cuda_case *c, const struct case_memory *mem, uint64_t *seed);

/* Runs both; true if all went well and gave the same. Says in c->error what did not. */
bool case_run(struct cuda_case *c, const struct case_memory *mem,
              const struct fake_cuda_options *options);

/* All three for round after round; the error of the first that fails goes to `error`. */
bool case_rounds(uint32_t function, const struct case_memory *mem, uint32_t rounds, uint64_t seed,
                 const struct fake_cuda_options *options, char *error, size_t n);

/* A host whose fail() keeps the sentence in text. */
struct case_host {
    struct zero_host host;
    char text[300];
};

void case_host_init(struct case_host *h);

#endif
