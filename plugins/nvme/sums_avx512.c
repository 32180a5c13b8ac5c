/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums with AVX-512; see sums_loop.h. */
#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif
#define XXH_VECTOR 3 /* XXH_AVX512 */
#define SUMS_NAME zero__nvme_sums_avx512
#include "sums_loop.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
