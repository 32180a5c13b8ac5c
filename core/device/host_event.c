/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: a record is an operation of a stream and has a number of its own, so that a query asks
 * for the last record, while a wait keeps to the record that was the last when it was enqueued.
 */
#include "device/host_types.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "device/host_race.h"

int host_event_create(struct zero_device *dev, void **event)
{
    struct host_event *e = calloc(1, sizeof *e);

    if (!e)
        return zero__fail(-ENOMEM, "host device: no memory for an event");
    pthread_mutex_lock(&dev->lock);
    e->next = dev->events;
    if (e->next)
        e->next->prev = e;
    dev->events = e;
    pthread_mutex_unlock(&dev->lock);
    *event = e;
    return 0;
}

void host_event_free(struct zero_device *dev, struct host_event *e)
{
    if (e->next)
        e->next->prev = e->prev;
    if (e->prev)
        e->prev->next = e->next;
    else
        dev->events = e->next;
    free(e->clock);
    free(e);
}

int host_event_destroy(struct zero_device *dev, void *event)
{
    struct host_event *e = event;

    pthread_mutex_lock(&dev->lock);
    e->dead = true;
    if (!e->pending)
        host_event_free(dev, e);
    pthread_mutex_unlock(&dev->lock);
    return 0;
}

int host_event_record(struct zero_device *dev, void *event, void *stream)
{
    struct host_event *e = event;
    struct host_stream *s = stream;
    uint64_t number;
    int err;

    pthread_mutex_lock(&dev->lock);
    err = host_room(dev, s);
    if (!err) {
        number = atomic_load_explicit(&e->recorded, memory_order_relaxed) + 1;
        atomic_store_explicit(&e->recorded, number, memory_order_release);
        e->pending++;
        e->stream = s;
        e->position = s->tail + 1;
        *host_op_at(s, s->tail) =
            (struct host_op){.kind = HOST_RECORD, .record = {.event = e, .number = number}};
        if (dev->race)
            race_record(dev->race, s->index, &e->clock);
        host_push(dev, s);
    }
    host_unlock(dev);
    return err;
}

int host_event_query(struct zero_device *dev, void *event)
{
    struct host_event *e = event;
    uint64_t recorded = atomic_load_explicit(&e->recorded, memory_order_acquire);

    (void)dev;
    if (atomic_load_explicit(&e->reached, memory_order_acquire) < recorded)
        return -EINPROGRESS;
    return atomic_load_explicit(&e->error, memory_order_relaxed);
}
