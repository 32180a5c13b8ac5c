/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the device for the host, which may have no way to them but a copy: values from outside,
 * the step's scalars. They go through a piece of pinned memory, since a copy from or to any other
 * would hold up the device's other work. Where the device's memory is the host's it is a plain
 * copy. The scalars come by themselves, so that no step ends with a copy that is waited for.
 */
#include <string.h>

#include "base/checked.h"
#include "run/runner.h"

#define PINNED_BYTES (UINT64_C(256) << 10)
#define ALL_BYTES (PINNED_BYTES + sizeof(struct zero_scalars))

int zero__reach_open(struct zero__runner *run)
{
    int err = run->site->dev_ops.stream_create(run->site->dev, "reach", &run->reach.stream);

    if (!err)
        err = run->site->dev_ops.alloc(run->site->dev, ALL_BYTES, ZERO_MEM_PINNED,
                                       &run->reach.pinned);
    if (!err)
        run->reach.scalars = (char *)run->reach.pinned + PINNED_BYTES;
    return err;
}

void zero__reach_close(struct zero__runner *run)
{
    void *other = run->lanes[ZERO__Q_CPU].stream; /* which was waited for */

    /* A copy that did not end in time may still do: then the piece is the device's until it closes.
     */
    if ((run->reach.stream && run->site->dev_ops.stream_sync(run->site->dev, run->reach.stream,
                                                             run->site->timeout_ns)) ||
        (other && run->reach.scalars && run->site->dev_ops.stream_sync(run->site->dev, other, 0)))
        run->reach.pinned = NULL;
    if (run->reach.pinned)
        run->site->dev_ops.release(run->site->dev, run->reach.pinned, ALL_BYTES, ZERO_MEM_PINNED);
    if (run->reach.stream)
        run->site->dev_ops.stream_destroy(run->site->dev, run->reach.stream);
    run->reach.pinned = run->reach.stream = run->reach.scalars = NULL;
}

int zero__reach_follow(struct zero__runner *run, const struct zero_scalars *scalars, void *stream)
{
    return zero__device_is_host(run->site)
               ? 0
               : run->site->dev_ops.copy(run->site->dev, run->reach.scalars, scalars,
                                         sizeof *scalars, stream);
}

struct zero_scalars zero__reach_scalars(const struct zero__runner *run)
{
    const void *at = zero__device_is_host(run->site)
                         ? zero__home_address(run->site, run->site->states.scalars, 0)
                         : run->reach.scalars;
    struct zero_scalars s;

    memcpy(&s, at, sizeof s);
    return s;
}

int zero__device_copy(struct zero__runner *run, void *to, const void *from, uint64_t bytes)
{
    int err;

    if (zero__device_is_host(run->site)) {
        memmove(to, from, bytes);
        return 0;
    }
    err = run->site->dev_ops.copy(run->site->dev, to, from, bytes, run->reach.stream);
    return err ? err
               : run->site->dev_ops.stream_sync(run->site->dev, run->reach.stream,
                                                run->site->timeout_ns);
}

int zero__device_read(struct zero__runner *run, void *to, const void *from, uint64_t bytes)
{
    int err = 0;

    if (zero__device_is_host(run->site)) {
        memcpy(to, from, bytes);
        return 0;
    }
    for (uint64_t at = 0; at < bytes && !err; at += PINNED_BYTES) {
        uint64_t n = zero__least(bytes - at, PINNED_BYTES);
        err = zero__device_copy(run, run->reach.pinned, (const char *)from + at, n);
        if (!err)
            memcpy((char *)to + at, run->reach.pinned, n);
    }
    return err;
}

int zero__device_write(struct zero__runner *run, void *to, const void *from, uint64_t bytes)
{
    int err = 0;

    if (zero__device_is_host(run->site)) {
        memcpy(to, from, bytes);
        return 0;
    }
    for (uint64_t at = 0; at < bytes && !err; at += PINNED_BYTES) {
        uint64_t n = zero__least(bytes - at, PINNED_BYTES);
        memcpy(run->reach.pinned, (const char *)from + at, n);
        err = zero__device_copy(run, (char *)to + at, run->reach.pinned, n);
    }
    return err;
}
