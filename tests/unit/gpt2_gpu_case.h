/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of zero-gpt2's kernels: launches with all their memory, drawn from a seed, whose
 * results are compared with those of the model's code for the host. Who tests says what a launch
 * is: the emulated grid, or a device.
 *
 * Every array ends at a page that nobody may touch.
 */
#ifndef ZERO_TESTS_UNIT_GPT2_GPU_CASE_H
#define ZERO_TESTS_UNIT_GPT2_GPU_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/gpt2/gpu/plan.h"

#define GPT2_CASE_ARRAYS 12u
#define GPT2_CASE_BYTES ((size_t)1 << 20) /* of an array at most */

struct gpt2_case {
    uint64_t seed;
    uint32_t dtype;
    /* Runs a launch whose parameters name the arrays; false after an error, which error says. */
    bool (*launch)(struct gpt2_case *c, const struct gpt2_launch *l);
    void *arg;
    struct {
        unsigned char *at;
        size_t bytes;
    } array[GPT2_CASE_ARRAYS];
    uint32_t n_arrays;
    char error[400];
    unsigned char *pages[GPT2_CASE_ARRAYS];
    float *reference; /* GPT2_CASE_BYTES for each array */
    float *scratch;
};

/* launch and arg are the caller's to set. */
void gpt2_case_open(struct gpt2_case *c);
void gpt2_case_close(struct gpt2_case *c);

uint32_t gpt2_n_cases(void);
const char *gpt2_case_name(uint32_t i);
/* Draws case i anew and runs it; false, with c->error, where the results are not the host's. */
bool gpt2_case_run(struct gpt2_case *c, uint32_t i, uint64_t seed, uint32_t dtype);

#endif
