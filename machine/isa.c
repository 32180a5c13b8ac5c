/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/isa.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Not every compiler's __builtin_cpu_supports knows f16c; that the system saves AVX registers is
 * implied by its answer for avx2. */
enum zero__isa zero__isa_best(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C))
        return ZERO__ISA_SCALAR;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? ZERO__ISA_AVX512
               : ZERO__ISA_AVX2;
#else
    return ZERO__ISA_SCALAR;
#endif
}

static const char *const names[] = {"auto", "scalar", "avx2", "avx512"};

const char *zero__isa_name(enum zero__isa isa)
{
    return names[isa];
}

bool zero__isa_parse(const char *name, enum zero__isa *isa)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *isa = (enum zero__isa)i;
            return true;
        }
    return false;
}
