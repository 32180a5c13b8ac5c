/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the disk for the application's thread: by requests that the storage thread serves. */
#include "base/checked.h"
#include "engine/runtime.h"

/* One request on pages of a home, by way of the bounce buffer. */
static int bounce_run(struct zero_runtime *rt, uint32_t op, uint64_t store_off, uint64_t bytes)
{
    const struct zero__buffer *f = &rt->states.buffers[rt->states.bounce];
    const struct zero_io io = {
        .op = op,
        .store_off = store_off,
        .buf = {rt->tiers[ZERO__T_DISK].mr, zero__place_in_memory(rt, f), bytes}};

    return zero__lane_run(rt, ZERO__Q_FETCH, &(struct slot){.own.io = io});
}

/* `off`: in the store. */
static int access_pieces(struct zero_runtime *rt, uint64_t off, uint64_t bytes, uint8_t *to,
                         const uint8_t *from)
{
    uint8_t *bounce = zero__home_address(rt, rt->states.bounce, 0);
    int err = 0;

    while (bytes && !err) {
        uint64_t head = off % ZERO_BUFFER_ALIGN, page = off - head;
        uint64_t n = zero__least(bytes, rt->states.staging_bytes);
        uint64_t whole = zero__whole_pages(head + n);
        if (to || head || whole != n) /* what lies around what is written stays */
            err = bounce_run(rt, ZERO_IO_READ, page, whole);
        if (!err && to) {
            err = zero__device_copy(rt, to, bounce + head, n);
            to += n;
        } else if (!err) {
            err = zero__device_copy(rt, bounce + head, from, n);
            err = err ? err : bounce_run(rt, ZERO_IO_WRITE, page, whole);
            from += n;
        }
        off += n;
        bytes -= n;
    }
    return err;
}

int zero__storage_read(struct zero_runtime *rt, uint32_t home, uint64_t off, uint64_t bytes,
                       void *to)
{
    return access_pieces(rt, rt->states.buffers[home].offset + off, bytes, to, NULL);
}

int zero__storage_write(struct zero_runtime *rt, uint32_t home, uint64_t off, uint64_t bytes,
                        const void *from)
{
    return access_pieces(rt, rt->states.buffers[home].offset + off, bytes, NULL, from);
}

int zero__storage_move(struct zero_runtime *rt, uint64_t off, uint64_t bytes, void *to,
                       const void *from)
{
    return access_pieces(rt, off + rt->slabs[zero__slab(ZERO__T_DISK, 0)].bytes, bytes, to, from);
}
