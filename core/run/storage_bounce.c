/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the disk for the application's thread: by requests that the storage thread serves. */
#include "base/checked.h"
#include "run/runner.h"

/* One request on pages of a home, by way of the bounce buffer. */
static int bounce_run(struct zero__runner *run, uint32_t op, uint64_t store_off, uint64_t bytes)
{
    const struct zero__buffer *f = &run->site->states.buffers[run->site->states.bounce];
    const struct zero_io io = {
        .op = op,
        .store_off = store_off,
        .buf = {run->site->tiers[ZERO__T_DISK].mr, zero__registered_offset(run->site, f), bytes}};

    return zero__io_run(run, ZERO__Q_FETCH, &io);
}

/* `off`: in the store. */
static int access_pieces(struct zero__runner *run, uint64_t off, uint64_t bytes, uint8_t *to,
                         const uint8_t *from)
{
    uint8_t *bounce = zero__home_address(run->site, run->site->states.bounce, 0);
    int err = 0;

    while (bytes && !err) {
        uint64_t head = off % ZERO_BUFFER_ALIGN, page = off - head;
        uint64_t n = zero__least(bytes, run->site->states.staging_bytes);
        uint64_t whole = zero__whole_pages(head + n);
        if (to || head || whole != n) /* what lies around what is written stays */
            err = bounce_run(run, ZERO_IO_READ, page, whole);
        if (!err && to) {
            err = zero__device_copy(run, to, bounce + head, n);
            to += n;
        } else if (!err) {
            err = zero__device_copy(run, bounce + head, from, n);
            err = err ? err : bounce_run(run, ZERO_IO_WRITE, page, whole);
            from += n;
        }
        off += n;
        bytes -= n;
    }
    return err;
}

int zero__storage_read(struct zero__runner *run, uint32_t home, uint64_t off, uint64_t bytes,
                       void *to)
{
    return access_pieces(run, run->site->states.buffers[home].offset + off, bytes, to, NULL);
}

int zero__storage_write(struct zero__runner *run, uint32_t home, uint64_t off, uint64_t bytes,
                        const void *from)
{
    return access_pieces(run, run->site->states.buffers[home].offset + off, bytes, NULL, from);
}

int zero__storage_move(struct zero__runner *run, uint64_t off, uint64_t bytes, void *to,
                       const void *from)
{
    return access_pieces(run, off + run->site->slabs[zero__slab(ZERO__T_DISK, 0)].bytes, bytes, to,
                         from);
}
