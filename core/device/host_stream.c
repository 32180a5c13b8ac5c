/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams from the caller's side: checks an operation, writes it into the ring, and starts it if it
 * is the first. A stream's memory stays until close, because waits refer to its positions.
 */
#include "device/host_types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/host_race.h"
#include "machine/thread.h"

static struct host_stream *new_stream(struct zero_device *dev)
{
    struct host_stream *s;

    for (s = dev->streams; s; s = s->next)
        if (!s->used)
            return s;
    if (dev->race && dev->n_streams == RACE_STREAMS)
        return NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->ring = calloc(HOST_RING, sizeof *s->ring);
    if (!s->ring) {
        free(s);
        return NULL;
    }
    s->index = dev->n_streams++;
    s->random = dev->seed + s->index;
    s->next = dev->streams;
    dev->streams = s;
    return s;
}

int host_stream_create(struct zero_device *dev, const char *name, void **stream)
{
    struct host_stream *s;

    pthread_mutex_lock(&dev->lock);
    s = new_stream(dev);
    if (s) {
        s->used = true;
        s->error = 0;
        s->wake_ns = ZERO_NEVER;
        snprintf(s->name, sizeof s->name, "%s", name ? name : "unnamed");
        if (dev->race)
            race_stream(dev->race, s->index, s->name);
    }
    pthread_mutex_unlock(&dev->lock);
    if (!s)
        return zero__fail(-ENOMEM, "host device: no memory for stream %s", name ? name : "unnamed");
    *stream = s;
    return 0;
}

int host_stream_destroy(struct zero_device *dev, void *stream)
{
    struct host_stream *s = stream;
    uint64_t left;

    pthread_mutex_lock(&dev->lock);
    left = s->tail - s->head;
    if (!left)
        s->used = false;
    pthread_mutex_unlock(&dev->lock);
    if (left)
        return zero__fail(-EBUSY, "stream %s has %llu operations left: synchronise it first",
                          s->name, (unsigned long long)left);
    return 0;
}

/* Waits under the lock until s has done `position` operations. */
static int wait_for(struct zero_device *dev, const struct host_stream *s, uint64_t position,
                    int64_t timeout_ns)
{
    int64_t end = zero__deadline_ns(timeout_ns);
    int err = 0;

    dev->n_waiters++;
    while (s->head < position && !err)
        err = zero__cond_until(&dev->done, &dev->lock, end);
    dev->n_waiters--;
    return s->head < position ? -ETIMEDOUT : 0;
}

int host_stream_sync(struct zero_device *dev, void *stream, int64_t timeout_ns)
{
    struct host_stream *s = stream;
    uint64_t left;
    int err, error;

    pthread_mutex_lock(&dev->lock);
    err = wait_for(dev, s, s->tail, timeout_ns);
    left = s->tail - s->head;
    error = s->error;
    pthread_mutex_unlock(&dev->lock);
    if (err)
        return zero__fail(err, "stream %s still has %llu operations to do after %g s "
                          "(ZERO_TIMEOUT): what takes longer needs a larger one", s->name,
                          (unsigned long long)left, (double)timeout_ns / 1e9);
    if (error)
        return zero__fail(error,
                          "stream %s ended early: a value that it waits for was not written "
                          "in time (%s)",
                          s->name, strerror(-error));
    return 0;
}

int host_room(struct zero_device *dev, struct host_stream *s)
{
    if (!s || !s->used)
        return zero__fail(-EINVAL, "host device: stream %p is none of stream_create()", (void *)s);
    while (s->tail - s->head == HOST_RING)
        if (wait_for(dev, s, s->tail - HOST_RING + 1, dev->timeout_ns))
            return zero__fail(-ETIMEDOUT,
                              "stream %s is full: %u operations wait, none was done in %g s "
                              "(ZERO_TIMEOUT): what takes longer needs a larger one",
                              s->name, HOST_RING, (double)dev->timeout_ns / 1e9);
    return 0;
}

void host_push(struct zero_device *dev, struct host_stream *s)
{
    if (s->tail++ == s->head)
        host_settle(dev, s);
}

static void tell_race(struct race *r, uint32_t stream, const struct host_op *op)
{
    if (op->kind == HOST_KERNEL)
        race_launch(r, stream, op->kernel, op->args);
    else if (op->kind == HOST_COPY)
        race_copy(r, stream, op->copy.dst, op->copy.src, op->copy.bytes);
}

static int push(struct zero_device *dev, struct host_stream *s, const struct host_op *op)
{
    int err;

    pthread_mutex_lock(&dev->lock);
    err = host_room(dev, s);
    if (!err) {
        *host_op_at(s, s->tail) = *op;
        if (dev->race)
            tell_race(dev->race, s->index, op);
        host_push(dev, s);
    }
    host_unlock(dev);
    return err;
}

int host_stream_wait(struct zero_device *dev, void *stream, void *event)
{
    struct host_stream *s = stream;
    const struct host_event *e = event;
    int err = 0;

    pthread_mutex_lock(&dev->lock);
    if (!e || !e->stream || e->stream == s) /* never recorded, or in order anyway */
        goto out;
    if ((err = host_room(dev, s)))
        goto out;
    *host_op_at(s, s->tail) =
        (struct host_op){.kind = HOST_WAIT, .wait = {.stream = e->stream, .position = e->position}};
    if (dev->race)
        race_wait(dev->race, s->index, e->clock);
    host_push(dev, s);
out:
    host_unlock(dev);
    return err;
}

int host_copy(struct zero_device *dev, void *dst, const void *src, uint64_t bytes, void *stream)
{
    struct host_op op = {.kind = HOST_COPY, .copy = {.dst = dst, .src = src, .bytes = bytes}};

    if (bytes == 0)
        return 0;
    if (!dst || !src)
        return zero__fail(-EINVAL, "copy: %s is NULL", dst ? "the source" : "the destination");
    dev->copied += bytes;
    return push(dev, stream, &op);
}

int host_launch(struct zero_device *dev, const struct zero_launch *launch, void *stream)
{
    struct host_op op = {.kind = HOST_KERNEL, .kernel = launch->kernel};
    int err = zero__kernel_check(launch);

    if (err || !zero__kernel_chunks(launch->kernel, launch->args))
        return err;
    memcpy(op.args, launch->args, launch->args_bytes);
    return push(dev, stream, &op);
}

int host_call(struct zero_device *dev, void (*fn)(void *arg), void *arg, void *stream)
{
    struct host_op op = {.kind = HOST_CALL, .call = {.fn = fn, .arg = arg}};

    return fn ? push(dev, stream, &op) : zero__fail(-EINVAL, "call: the function is NULL");
}

int host_wait_value(struct zero_device *dev, void *stream, uint64_t *addr, uint64_t value)
{
    struct host_op op = {.kind = HOST_WAIT_VALUE, .flag = {.addr = addr, .value = value}};

    if (!addr || (uintptr_t)addr % sizeof *addr)
        return zero__fail(-EINVAL, "flag at %p: it must be a multiple of 8 bytes", (void *)addr);
    return push(dev, stream, &op);
}

int host_touch(struct zero_device *dev, void *stream, const void *base, uint64_t bytes,
               uint32_t write, const char *what)
{
    const struct host_stream *s = stream;

    if (!dev->race || !bytes)
        return 0;
    if (!s)
        return zero__fail(-EINVAL, "touch: the stream of %s is NULL", what ? what : "an access");
    pthread_mutex_lock(&dev->lock);
    race_touch(dev->race, s->index, base, bytes, write != 0, what);
    pthread_mutex_unlock(&dev->lock);
    return 0;
}
