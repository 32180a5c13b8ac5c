/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elements.h"

#include <string.h>

uint32_t zero__element_bytes(uint32_t code)
{
    return code == ZERO__LOW_HALF ? 2 : zero_dtype_bytes(code);
}

/* One loop a type, so that compilers vectorize each. */
void zero__elements_unpack(float *restrict values, const void *restrict x, uint32_t code,
                           uint64_t n)
{
    const uint16_t *halves = x;

    switch (code) {
    case ZERO__LOW_HALF:
        for (uint64_t i = 0; i < n; i++)
            values[i] = zero_join_bf16(zero_bf16_from_float(values[i]), halves[i]);
        break;
    case ZERO_BF16:
        for (uint64_t i = 0; i < n; i++)
            values[i] = zero_float_from_bf16(halves[i]);
        break;
    case ZERO_F16:
        for (uint64_t i = 0; i < n; i++)
            values[i] = zero_float_from_fp16(halves[i]);
        break;
    default:
        memcpy(values, x, n * sizeof *values);
    }
}

void zero__elements_pack(void *restrict x, uint32_t code, const float *restrict values, uint64_t n)
{
    uint16_t *halves = x;

    switch (code) {
    case ZERO__LOW_HALF:
        for (uint64_t i = 0; i < n; i++)
            halves[i] = zero_low_half(values[i]);
        break;
    case ZERO_BF16:
        for (uint64_t i = 0; i < n; i++)
            halves[i] = zero_bf16_from_float(values[i]);
        break;
    case ZERO_F16:
        for (uint64_t i = 0; i < n; i++)
            halves[i] = zero_fp16_from_float(values[i]);
        break;
    default:
        memcpy(x, values, n * sizeof *values);
    }
}
