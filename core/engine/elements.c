/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores of a home's elements; see elements.h. */
#include "engine/elements.h"

#include <string.h>

#include "base/checked.h"

uint64_t zero__elements_piece(const struct zero_runtime *rt)
{
    return rt->states.staging_bytes / sizeof(float);
}

static uint32_t code_bytes(uint32_t code)
{
    return code == ZERO__LOW_HALF ? 2 : zero_dtype_bytes(code);
}

/* A loop for each type, so that compilers make vectors of them. */
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

/* The host's instructions can use what lies there. */
static int is_at_hand(const struct zero_runtime *rt, uint32_t id)
{
    uint32_t tier = rt->states.buffers[id].tier;

    return tier == ZERO__T_CPU || (tier == ZERO__T_DEVICE && zero__device_is_host(rt));
}

/* Bytes of a home that is not at hand, from the scratch or to it. */
static int bytes_move(struct zero_runtime *rt, uint32_t id, uint64_t off, uint64_t bytes,
                      int to_home)
{
    if (rt->states.buffers[id].tier == ZERO__T_DISK)
        return to_home ? zero__storage_write(rt, id, off, bytes, rt->scratch)
                       : zero__storage_read(rt, id, off, bytes, rt->scratch);
    return to_home ? zero__device_write(rt, zero__home_address(rt, id, off), rt->scratch, bytes)
                   : zero__device_read(rt, rt->scratch, zero__home_address(rt, id, off), bytes);
}

/* Where it is not at hand, through the scratch. */
int zero__elements_store(struct zero_runtime *rt, uint32_t id, uint32_t code, uint64_t at,
                         uint64_t n, const float *values)
{
    uint32_t size = code_bytes(code);
    int err = 0;

    if (is_at_hand(rt, id)) {
        zero__elements_pack(zero__home_address(rt, id, at * size), code, values, n);
        return 0;
    }
    for (uint64_t done = 0; done < n && !err; done += zero__elements_piece(rt)) {
        uint64_t k = zero__least(n - done, zero__elements_piece(rt));
        zero__elements_pack(rt->scratch, code, values + done, k);
        err = bytes_move(rt, id, (at + done) * size, k * size, 1);
    }
    return err;
}

int zero__elements_load(struct zero_runtime *rt, uint32_t id, uint32_t code, uint64_t at,
                        uint64_t n, float *values)
{
    uint32_t size = code_bytes(code);
    int err = 0;

    if (is_at_hand(rt, id)) {
        zero__elements_unpack(values, zero__home_address(rt, id, at * size), code, n);
        return 0;
    }
    for (uint64_t done = 0; done < n && !err; done += zero__elements_piece(rt)) {
        uint64_t k = zero__least(n - done, zero__elements_piece(rt));
        err = bytes_move(rt, id, (at + done) * size, k * size, 0);
        if (!err)
            zero__elements_unpack(values + done, rt->scratch, code, k);
    }
    return err;
}
