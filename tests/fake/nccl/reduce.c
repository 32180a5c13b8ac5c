/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the type that the addends have. */
#include <string.h>

#include "fake.h"

size_t fake_type_bytes(int type)
{
    switch (type) {
    case NCCL_I8:
    case NCCL_U8:
        return 1;
    case NCCL_I32:
    case NCCL_F32:
        return 4;
    case NCCL_I64:
    case NCCL_F64:
        return 8;
    default:
        return 0;
    }
}

#define EACH(T, assign)                           \
    for (size_t i = 0; i < n; i++) {              \
        T x, y;                                   \
        memcpy(&x, src + i * sizeof x, sizeof x); \
        memcpy(&y, dst + i * sizeof y, sizeof y); \
        assign;                                   \
        memcpy(dst + i * sizeof y, &y, sizeof y); \
    }

void fake_scale(int type, char *dst, const char *src, size_t n, double factor)
{
    float single = (float)factor;

    memmove(dst, src, n * fake_type_bytes(type));
    if (factor == 1)
        return;
    if (type == NCCL_F32)
        EACH(float, y = x * single)
    else if (type == NCCL_F64)
        EACH(double, y = x * factor)
}

void fake_add(int type, char *dst, const char *src, size_t n)
{
    switch (type) {
    case NCCL_F32:
        EACH(float, y += x)
        break;
    case NCCL_F64:
        EACH(double, y += x)
        break;
    case NCCL_I32:
        EACH(uint32_t, y += x)
        break;
    case NCCL_I64:
        EACH(uint64_t, y += x)
        break;
    default:
        EACH(uint8_t, y = (uint8_t)(y + x))
    }
}
