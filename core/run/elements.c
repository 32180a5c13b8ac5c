/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of a home as fp32, in whatever tier and type it is kept. Homes that host instructions
 * cannot use are moved through the scratch.
 */
#include "base/elements.h"

#include <string.h>

#include "base/checked.h"
#include "run/runner.h"

uint64_t zero__elements_piece(const struct zero__runner *run)
{
    return run->site->states.staging_bytes / sizeof(float);
}

/* Host instructions can read and write the home. */
static int is_at_hand(const struct zero__runner *run, uint32_t id)
{
    uint32_t tier = run->site->states.buffers[id].tier;

    return tier == ZERO__T_CPU || (tier == ZERO__T_DEVICE && zero__device_is_host(run->site));
}

/* Moves bytes between the scratch and a home that host instructions cannot use. */
static int bytes_move(struct zero__runner *run, uint32_t id, uint64_t off, uint64_t bytes,
                      int to_home)
{
    if (run->site->states.buffers[id].tier == ZERO__T_DISK)
        return to_home ? zero__storage_write(run, id, off, bytes, run->scratch)
                       : zero__storage_read(run, id, off, bytes, run->scratch);
    return to_home ? zero__device_write(run, zero__home_address(run->site, id, off), run->scratch,
                                        bytes)
                   : zero__device_read(run, run->scratch, zero__home_address(run->site, id, off),
                                       bytes);
}

int zero__elements_store(struct zero__runner *run, uint32_t id, uint32_t code, uint64_t at,
                         uint64_t n, const float *values)
{
    uint32_t size = zero__element_bytes(code);
    int err = 0;

    if (is_at_hand(run, id)) {
        zero__elements_pack(zero__home_address(run->site, id, at * size), code, values, n);
        return 0;
    }
    for (uint64_t done = 0; done < n && !err; done += zero__elements_piece(run)) {
        uint64_t k = zero__least(n - done, zero__elements_piece(run));
        zero__elements_pack(run->scratch, code, values + done, k);
        err = bytes_move(run, id, (at + done) * size, k * size, 1);
    }
    return err;
}

int zero__elements_load(struct zero__runner *run, uint32_t id, uint32_t code, uint64_t at,
                        uint64_t n, float *values)
{
    uint32_t size = zero__element_bytes(code);
    int err = 0;

    if (is_at_hand(run, id)) {
        zero__elements_unpack(values, zero__home_address(run->site, id, at * size), code, n);
        return 0;
    }
    for (uint64_t done = 0; done < n && !err; done += zero__elements_piece(run)) {
        uint64_t k = zero__least(n - done, zero__elements_piece(run));
        err = bytes_move(run, id, (at + done) * size, k * size, 0);
        if (!err)
            zero__elements_unpack(values + done, run->scratch, code, k);
    }
    return err;
}
