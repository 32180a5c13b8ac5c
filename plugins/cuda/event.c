/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Who is told of them is told by a stream beside the one that they are recorded on: it
 * waits for the event and then calls, so that the work behind the event does not wait for the call.
 */
#include "cuda.h"

#include <errno.h>

int zero__cuda_event_create(struct zero_device *dev, void **event)
{
    struct cuda_event *e = NULL;
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    err =
        zero__cuda_check(dev, dev->driver.event_create(&e, CUDA_EVENT_DISABLE_TIMING), "an event");
    zero__cuda_leave(dev);
    if (!err)
        *event = e;
    return err;
}

int zero__cuda_event_destroy(struct zero_device *dev, void *event)
{
    int err = zero__cuda_enter_to_end(dev);

    if (err)
        return err;
    err = zero__cuda_check(dev, dev->driver.event_destroy(event), "destroying an event");
    zero__cuda_leave(dev);
    return err;
}

/* Called by the driver. What comes after close() has begun is for nobody. */
static void ring(void *arg)
{
    struct zero_device *dev = arg;

    pthread_mutex_lock(&dev->notice);
    if (!dev->silent)
        dev->notify(dev->notify_arg);
    pthread_mutex_unlock(&dev->notice);
}

/* The bell of a stream; an application's stream gets one when it is first seen. */
static struct cuda_stream *bell_of(struct zero_device *dev, struct cuda_stream *stream)
{
    struct cuda_stream *bell = NULL;
    uint32_t i = 0;

    pthread_mutex_lock(&dev->lock);
    while (i < dev->n_bells && dev->bells[i].of != stream)
        i++;
    if (i < dev->n_bells)
        bell = dev->bells[i].stream;
    else if (i < CUDA_BELLS / 2 && /* the others are for streams of the device's own */
             !dev->driver.stream_create(&bell, CUDA_STREAM_NON_BLOCKING))
        dev->bells[dev->n_bells++] = (struct cuda_bell){.of = stream, .stream = bell};
    pthread_mutex_unlock(&dev->lock);
    return bell ? bell : stream; /* it can call by itself, at some cost */
}

/* The context is current. */
static int record(struct zero_device *dev, struct cuda_event *event, struct cuda_stream *stream)
{
    struct cuda_stream *bell;
    int err = zero__cuda_check(dev, dev->driver.event_record(event, stream), "recording an event");

    if (err || !dev->notify)
        return err;
    bell = bell_of(dev, stream);
    if (bell != stream)
        err = zero__cuda_check(dev, dev->driver.stream_wait(bell, event, 0),
                               "making a bell wait for an event");
    return err ? err
               : zero__cuda_check(dev, dev->driver.call(bell, ring, dev), "enqueueing a notice");
}

int zero__cuda_event_record(struct zero_device *dev, void *event, void *stream)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    err = record(dev, event, stream);
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_event_query(struct zero_device *dev, void *event)
{
    int result, err = zero__cuda_enter(dev);

    if (err)
        return err;
    result = dev->driver.event_query(event);
    zero__cuda_leave(dev);
    return result == CUDA_NOT_READY ? -EINPROGRESS
                                    : zero__cuda_check(dev, result, "asking for an event");
}
