/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical sum and maximum of N sources, one pass, for every plugin that reduces on the host.
 *
 * For each element: ((x0 + x1) + x2) + … in the order of the sources, times scale once, then added
 * to dst (accumulate) or rounded once to dst's type. fp32, fp16 and bf16 are added in fp32, fp64
 * and integers in their own type (integers wrap around). Every instruction set gives the same bits:
 * nothing is fused, and a result that is not a number is always the positive quiet NaN.
 */
#ifndef ZERO_PLUGINS_COMMON_REDUCE_H
#define ZERO_PLUGINS_COMMON_REDUCE_H

#include <zero/comm.h>

#include "machine/isa.h"

/*
 * Types must be equal, or both of fp32, fp16 and bf16; accumulate needs floating sources and an
 * fp32 dst. dst may be one of the sources where the types are equal, or not overlap them at all.
 * Pointers are aligned to the element. scale is 1 except for floating sums.
 */
struct zero__reduce {
    void *dst;
    const void *const *src; /* n sources, n ≥ 1 */
    uint32_t n;
    uint32_t src_dtype, dst_dtype;
    uint32_t redop; /* enum zero_redop */
    float scale;
    uint8_t accumulate;
    uint8_t stream;        /* store past the caches: pays when the data exceeds them */
    uint64_t first, count; /* elements first … first + count - 1 of dst and of each source */
    /* Floating types: an fp32 sum, before the sources, from element `first` on; may be dst. */
    const float *partial;
};

/*
 * The instruction set that the option "isa" (auto, avx512, avx2, scalar) asks for, never AUTO;
 * -ENOTSUP when this CPU lacks it, -EINVAL for another word, with the sentence recorded.
 */
int zero__isa_select(const struct zero_host *host, const char *plugin, enum zero__isa *isa);

void zero__reduce(enum zero__isa isa, const struct zero__reduce *r);

/* ---- Between the dispatcher and the instruction sets ----------------------------------------- */

#define ZERO__REDUCE_FAN_IN 8u /* sources read side by side; more thrash the prefetchers */

/* A pass over at most ZERO__REDUCE_FAN_IN floating sources; dst points at element `first` here. */
void zero__reduce_float_scalar(const struct zero__reduce *r);
#if defined(__x86_64__)
void zero__reduce_float_avx2(const struct zero__reduce *r);
void zero__reduce_float_avx512(const struct zero__reduce *r);
#endif

#endif
