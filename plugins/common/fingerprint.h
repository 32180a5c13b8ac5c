/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank says about a collective that it posts. Every rank compares its own words with those
 * of each other rank at the same place, before the collective can complete anywhere, so that a
 * program whose ranks went apart never computes with mixed-up numbers.
 */
#ifndef ZERO_PLUGINS_COMMON_FINGERPRINT_H
#define ZERO_PLUGINS_COMMON_FINGERPRINT_H

#include <stdbool.h>

#include <zero/comm.h>

struct zero__fingerprint {
    uint64_t index; /* place in the communicator's order */
    uint64_t count, sequence;
    uint32_t kind, flags, src_dtype, dst_dtype, redop, scale_bits, group, epoch;
    int32_t root;
    uint32_t reserved;
};

void zero__fingerprint_make(const struct zero_coll *c, uint64_t index, struct zero__fingerprint *f);

/*
 * Is what rank x posted (a) something else than what rank y did (b)? Then the sentence is in
 * `why`, in the same words whichever rank finds it.
 */
bool zero__fingerprint_differs(int32_t x, const struct zero__fingerprint *a, int32_t y,
                               const struct zero__fingerprint *b, char *why, size_t room);

#endif
