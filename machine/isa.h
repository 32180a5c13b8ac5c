/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction sets that loops are written for, and which of them this processor has. */
#ifndef ZERO_MACHINE_ISA_H
#define ZERO_MACHINE_ISA_H

#include <stdbool.h>

/* Each includes those before it. */
enum zero__isa {
    ZERO__ISA_AUTO, /* the best that there is */
    ZERO__ISA_SCALAR,
    ZERO__ISA_AVX2,
    ZERO__ISA_AVX512,
};

/* The best that processor and system have; never AUTO. Nothing is kept: ask once, at the start. */
enum zero__isa zero__isa_best(void);

/* "auto", "scalar", "avx2", "avx512". */
const char *zero__isa_name(enum zero__isa isa);
/* The one of this name; false: there is none. */
bool zero__isa_parse(const char *name, enum zero__isa *isa);

#endif
