/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target takes bytes that come from outside and must neither crash nor hang, whatever they are.
 * `make check-fuzz` links targets with libFuzzer; `make check` with short.c, which tries mutations
 * of the target's seeds in an order that is always the same.
 */
#ifndef ZERO_TESTS_FUZZ_H
#define ZERO_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's entry; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What an input has reached: bits of the target's own, which it adds. */
extern unsigned fuzz_reached;

/* An input to begin with, and all that it reaches as it is. */
struct fuzz_seed {
    const void *data;
    size_t size;
    unsigned reaches;
};

/* They end with a size of 0. */
extern const struct fuzz_seed fuzz_seeds[];

#define FUZZ_TEXT(s, reaches)     \
    {                             \
        s, sizeof(s) - 1, reaches \
    }

/*
 * Tries a seed as it is. One that no longer reaches what it did leaves the fuzzer at the door of
 * the parser, and nothing else would tell.
 */
static inline bool fuzz_seed_holds(const struct fuzz_seed *seed)
{
    uint8_t *exact = malloc(seed->size); /* so that a sanitizer sees reading beyond the end */

    if (!exact)
        abort();
    memcpy(exact, seed->data, seed->size);
    fuzz_reached = 0;
    LLVMFuzzerTestOneInput(exact, seed->size);
    free(exact);
    return fuzz_reached == seed->reaches;
}

#endif
