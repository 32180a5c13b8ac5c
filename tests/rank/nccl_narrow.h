/* SPDX-License-Identifier: Apache-2.0 */
/* The host device with streams that hold MOST operations: who puts more there waits. */
#ifndef ZERO_TESTS_RANK_NCCL_NARROW_H
#define ZERO_TESTS_RANK_NCCL_NARROW_H

#include <errno.h>
#include <stdatomic.h>

#include "device/host.h"

#define MOST 1000

static struct zero_device_ops narrow;
static atomic_int on_streams, held, kernels;

static void leaves(void *arg)
{
    (void)arg;
    atomic_fetch_sub(&on_streams, 1);
}

static int enters(struct zero_device *dev, void *stream)
{
    for (int ms = 0; atomic_load(&on_streams) >= MOST; ms++) {
        atomic_store(&held, 1);
        if (ms == 3000)
            return -ETIMEDOUT;
        check_sleep_ms(1);
    }
    atomic_fetch_add(&on_streams, 1);
    return zero__host_device_ops.call(dev, leaves, NULL, stream);
}

static int narrow_launch(struct zero_device *dev, const struct zero_launch *l, void *stream)
{
    int err = zero__host_device_ops.launch(dev, l, stream);

    atomic_fetch_add(&kernels, 1);
    return err ? err : enters(dev, stream);
}

static int narrow_record(struct zero_device *dev, void *event, void *stream)
{
    int err = zero__host_device_ops.event_record(dev, event, stream);
    return err ? err : enters(dev, stream);
}

/* NCCL's own. */
static int narrow_wait(struct zero_device *dev, void *stream, uint64_t *addr, uint64_t value)
{
    int err = zero__host_device_ops.wait_value(dev, stream, addr, value);
    return err ? err : enters(dev, stream);
}

static void narrow_make(void)
{
    narrow = zero__host_device_ops;
    narrow.launch = narrow_launch;
    narrow.event_record = narrow_record;
    narrow.wait_value = narrow_wait;
}

#endif
