/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums with AVX2; see sums_loop.h. */
#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define XXH_VECTOR 2 /* XXH_AVX2 */
#define SUMS_NAME zero__nvme_sums_avx2
#include "sums_loop.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
