/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a home as fp32, however they are kept there, and wherever that is. */
#ifndef ZERO_ENGINE_ELEMENTS_H
#define ZERO_ENGINE_ELEMENTS_H

#include "engine/runtime.h"

/* How elements are kept: a type, or the lower halves of values whose upper ones are bf16. */
#define ZERO__LOW_HALF ((uint32_t)-1)

/* As many as are moved at a time. */
uint64_t zero__elements_piece(const struct zero_runtime *rt);
/* n values from element `at` of a home on. Loading lower halves, values has the upper ones. */
int zero__elements_store(struct zero_runtime *rt, uint32_t id, uint32_t code, uint64_t at,
                         uint64_t n, const float *values);
int zero__elements_load(struct zero_runtime *rt, uint32_t id, uint32_t code, uint64_t at,
                        uint64_t n, float *values);
/* The same of elements at an address of the host. */
void zero__elements_pack(void *restrict x, uint32_t code, const float *restrict values, uint64_t n);
void zero__elements_unpack(float *restrict values, const void *restrict x, uint32_t code,
                           uint64_t n);

#endif
