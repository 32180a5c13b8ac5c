/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target takes bytes that come from outside and must neither crash nor hang, whatever they are.
 * `make check-fuzz` links targets with libFuzzer; `make check` with short.c, which tries mutations
 * of the target's seeds in an order that is always the same.
 */
#ifndef ZERO_TESTS_FUZZ_H
#define ZERO_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_seed {
    const void *data;
    size_t size;
};

/* Inputs to begin with; ends with a size of 0. */
extern const struct fuzz_seed fuzz_seeds[];

#define FUZZ_TEXT(s)     \
    {                    \
        s, sizeof(s) - 1 \
    }

#endif
