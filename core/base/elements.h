/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of elements between fp32 and the types in which states are kept. */
#ifndef ZERO_BASE_ELEMENTS_H
#define ZERO_BASE_ELEMENTS_H

#include <stdint.h>

#include <zero/types.h>

/* The type of the lower halves of fp32 values whose upper halves are kept as bf16. */
#define ZERO__LOW_HALF ((uint32_t)-1)

/* Bytes of an element of a type: enum zero_dtype or ZERO__LOW_HALF. */
uint32_t zero__element_bytes(uint32_t code);
void zero__elements_pack(void *restrict x, uint32_t code, const float *restrict values, uint64_t n);
/* Unpacking lower halves, values has the upper halves before. */
void zero__elements_unpack(float *restrict values, const void *restrict x, uint32_t code,
                           uint64_t n);

#endif
