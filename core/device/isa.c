/* SPDX-License-Identifier: Apache-2.0 */
/* Which loops this machine can run; asked once per device, never cached in a global. */
#include <string.h>

#include "base/status.h"
#include "device/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports knows f16c; that the system saves AVX registers is
 * implied by its answer for avx2. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct zero__loops *zero__loops(enum zero__isa isa)
{
#if defined(__x86_64__)
    if ((isa == ZERO__ISA_AVX512 || isa == ZERO__ISA_AUTO) && has_avx512())
        return &zero__loops_avx512;
    if ((isa == ZERO__ISA_AVX2 || isa == ZERO__ISA_AUTO) && has_avx2())
        return &zero__loops_avx2;
#endif
    return isa == ZERO__ISA_SCALAR || isa == ZERO__ISA_AUTO ? &zero__loops_scalar : NULL;
}

int zero__isa_parse(const char *name, enum zero__isa *isa)
{
    static const struct {
        const char *name;
        enum zero__isa isa;
    } known[] = {
        {"auto", ZERO__ISA_AUTO},
        {"scalar", ZERO__ISA_SCALAR},
        {"avx2", ZERO__ISA_AVX2},
        {"avx512", ZERO__ISA_AVX512},
    };

    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            *isa = known[i].isa;
            return 0;
        }
    return zero__fail(-EINVAL,
                      "instruction set \"%s\" is unknown: use auto, avx512, avx2 or scalar", name);
}
