/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the plugin shm on memory of a device: a rank with both, opened and closed. */
#ifndef ZERO_TESTS_COMM_DEVICE_H
#define ZERO_TESTS_COMM_DEVICE_H

#include "comm.h"

#include <zero/device.h>

#define SLAB (UINT64_C(4) << 20)
#define HALF (SLAB / 2)

struct on_device {
    struct comm_rank c; /* c.mr, c.memory: of the host, which the reference runs on */
    const struct zero_device_ops *d;
    struct zero_device *dev;
    void *stream;
    char *pinned; /* as large as a slab */
    struct zero_mr *mr;
    char *base;   /* of the device */
    uint32_t mem; /* kinds that the context takes */
    _Atomic(struct zero_comm_ctx *) wakes;
};

/* As the library does it: what the device tells of wakes the transport up. */
static void on_device_notify(void *arg)
{
    struct on_device *o = arg;
    struct zero_comm_ctx *ctx = atomic_load(&o->wakes);

    if (ctx)
        o->c.ops->wake(ctx);
}

/* The device, without a transport. */
static bool on_device_begin(struct rank *r, struct on_device *o, int index,
                            const struct zero_setting *settings, uint32_t n)
{
    struct zero__plugin *plugin;

    atomic_init(&o->wakes, NULL);
    if (!comm_load(r, &o->c, "shm", settings, n) ||
        !want(r, !zero__loader_load(o->c.loader, ZERO_IFACE_DEVICE, "cuda", &plugin), "load: %s",
              zero_last_error()))
        return false;
    o->d = zero__plugin_device(plugin);
    struct zero_device_open open = {.size = sizeof open,
                                    .host = zero__loader_host(o->c.loader),
                                    .index = index,
                                    .threads = 1,
                                    .timeout_ns = WAIT_NS,
                                    .notify = on_device_notify,
                                    .notify_arg = o};
    return want(r, !o->d->open(&open, &o->dev), "device: %s", zero_last_error()) &&
           want(r, !o->d->stream_create(o->dev, "test", &o->stream), "stream: %s",
                zero_last_error()) &&
           want(r, !o->d->alloc(o->dev, SLAB, ZERO_MEM_PINNED, (void **)&o->pinned), "pinned: %s",
                zero_last_error());
}

static bool on_device_context(struct rank *r, struct on_device *o, int64_t timeout_ns)
{
    struct zero_comm_open open = {.size = sizeof open,
                                  .host = zero__loader_host(o->c.loader),
                                  .oob = &o->c.oob,
                                  .device = -1,
                                  .timeout_ns = timeout_ns,
                                  .device_ops = o->d,
                                  .device_handle = o->dev};

    if (!want(r, !o->c.ops->open(&open, &o->c.ctx), "open: %s", zero_last_error()))
        return false;
    atomic_store(&o->wakes, o->c.ctx);
    return want(r, !o->c.ops->split(o->c.ctx, NULL, 0, 0, &o->c.world), "split: %s",
                zero_last_error()) &&
           want(r, !o->c.ops->memory(o->c.ctx, &o->mem), "memory: %s", zero_last_error());
}

/* A slab of the host and one of the device, both exchanged. */
static bool on_device_memory(struct rank *r, struct on_device *o)
{
    const struct zero_comm_ops *ops = o->c.ops;
    void *base = NULL, *memory = NULL;

    if (!want(r, o->mem == (ZERO_MEM_HOST | ZERO_MEM_CUDA), "kinds of memory: %u", o->mem) ||
        !want(r, !ops->alloc(o->c.ctx, SLAB, ZERO_MEM_HOST, &memory, &o->c.mr), "alloc: %s",
              zero_last_error()) ||
        !want(r, !ops->exchange(o->c.ctx, o->c.mr), "exchange: %s", zero_last_error()) ||
        !want(r, !ops->alloc(o->c.ctx, SLAB, ZERO_MEM_CUDA, &base, &o->mr), "alloc: %s",
              zero_last_error()))
        return false;
    o->c.memory = memory;
    o->base = base;
    return want(r, !ops->exchange(o->c.ctx, o->mr), "exchange: %s", zero_last_error());
}

/* In the library's order: communicators, the device's memory, the device, the context. */
static void on_device_end(struct rank *r, struct on_device *o)
{
    atomic_store(&o->wakes, NULL);
    if (o->c.world)
        want(r, !o->c.ops->comm_close(o->c.world), "close: %s", zero_last_error());
    if (o->mr)
        want(r, !o->c.ops->free(o->c.ctx, o->mr), "free: %s", zero_last_error());
    if (o->pinned)
        o->d->release(o->dev, o->pinned, SLAB, ZERO_MEM_PINNED);
    if (o->stream)
        o->d->stream_destroy(o->dev, o->stream);
    if (o->dev)
        want(r, !o->d->close(o->dev), "the device: %s", zero_last_error());
    o->c.memory = NULL; /* it goes with the context */
    comm_end(r, &o->c);
}

/* Copies the slab of the host to the device's, or the other way. */
__attribute__((unused)) static bool on_device_copy(struct rank *r, struct on_device *o,
                                                   bool to_device, char *host)
{
    int err;

    if (to_device)
        memcpy(o->pinned, host, SLAB);
    err = o->d->copy(o->dev, to_device ? o->base : o->pinned, to_device ? o->pinned : o->base, SLAB,
                     o->stream);
    if (!err)
        err = o->d->stream_sync(o->dev, o->stream, WAIT_NS);
    if (!to_device)
        memcpy(host, o->pinned, SLAB);
    return want(r, !err, "copy: %s", zero_last_error());
}

#endif
