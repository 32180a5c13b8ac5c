/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the device for the host, which may have no way to them but a copy: values from outside,
 * the step's scalars. They go through a piece of pinned memory, since a copy from or to any other
 * would hold up the device's other work. Where the device's memory is the host's it is a plain
 * copy. The scalars come by themselves, so that no step ends with a copy that is waited for.
 */
#include <string.h>

#include "base/checked.h"
#include "engine/runtime.h"

#define PINNED_BYTES (UINT64_C(256) << 10)
#define ALL_BYTES (PINNED_BYTES + sizeof(struct zero_scalars))

int zero__reach_open(struct zero_runtime *rt)
{
    int err = rt->dev_ops.stream_create(rt->dev, "reach", &rt->reach.stream);

    if (!err)
        err = rt->dev_ops.alloc(rt->dev, ALL_BYTES, ZERO_MEM_PINNED, &rt->reach.pinned);
    if (!err)
        rt->reach.scalars = (char *)rt->reach.pinned + PINNED_BYTES;
    return err;
}

void zero__reach_close(struct zero_runtime *rt)
{
    void *other = rt->lanes[ZERO__Q_CPU].stream; /* which was waited for */

    /* A copy that did not end in time may still do: then the piece is the device's until it closes.
     */
    if ((rt->reach.stream && rt->dev_ops.stream_sync(rt->dev, rt->reach.stream, rt->timeout_ns)) ||
        (other && rt->reach.scalars && rt->dev_ops.stream_sync(rt->dev, other, 0)))
        rt->reach.pinned = NULL;
    if (rt->reach.pinned)
        rt->dev_ops.release(rt->dev, rt->reach.pinned, ALL_BYTES, ZERO_MEM_PINNED);
    if (rt->reach.stream)
        rt->dev_ops.stream_destroy(rt->dev, rt->reach.stream);
    rt->reach.pinned = rt->reach.stream = rt->reach.scalars = NULL;
}

int zero__reach_follow(struct zero_runtime *rt, const struct zero_scalars *scalars, void *stream)
{
    return zero__device_is_host(rt)
               ? 0
               : rt->dev_ops.copy(rt->dev, rt->reach.scalars, scalars, sizeof *scalars, stream);
}

struct zero_scalars zero__reach_scalars(const struct zero_runtime *rt)
{
    const void *at = zero__device_is_host(rt) ? zero__home_address(rt, rt->states.scalars, 0)
                                              : rt->reach.scalars;
    struct zero_scalars s;

    memcpy(&s, at, sizeof s);
    return s;
}

int zero__device_copy(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes)
{
    int err;

    if (zero__device_is_host(rt)) {
        memmove(to, from, bytes);
        return 0;
    }
    err = rt->dev_ops.copy(rt->dev, to, from, bytes, rt->reach.stream);
    return err ? err : rt->dev_ops.stream_sync(rt->dev, rt->reach.stream, rt->timeout_ns);
}

int zero__device_read(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes)
{
    int err = 0;

    if (zero__device_is_host(rt)) {
        memcpy(to, from, bytes);
        return 0;
    }
    for (uint64_t at = 0; at < bytes && !err; at += PINNED_BYTES) {
        uint64_t n = zero__least(bytes - at, PINNED_BYTES);
        err = zero__device_copy(rt, rt->reach.pinned, (const char *)from + at, n);
        if (!err)
            memcpy((char *)to + at, rt->reach.pinned, n);
    }
    return err;
}

int zero__device_write(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes)
{
    int err = 0;

    if (zero__device_is_host(rt)) {
        memcpy(to, from, bytes);
        return 0;
    }
    for (uint64_t at = 0; at < bytes && !err; at += PINNED_BYTES) {
        uint64_t n = zero__least(bytes - at, PINNED_BYTES);
        memcpy(rt->reach.pinned, (const char *)from + at, n);
        err = zero__device_copy(rt, (char *)to + at, rt->reach.pinned, n);
    }
    return err;
}
