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

/*
 * The bell of a stream, made when the stream is first recorded: all streams share the device's few
 * queues of work, and a bell waits in its queue. NULL: there are too many.
 */
static int bell_of(struct zero_device *dev, struct cuda_stream *stream, struct cuda_stream **bell)
{
    uint32_t i = 0;
    int result = 0;

    pthread_mutex_lock(&dev->lock);
    while (i < dev->n_bells && dev->bells[i].of != stream)
        i++;
    if (i == dev->n_bells && i < CUDA_BELLS / 2) /* the others are for the device's own streams */
        dev->bells[dev->n_bells++] = (struct cuda_bell){.of = stream};
    if (i < dev->n_bells && !dev->bells[i].stream)
        result = dev->driver.stream_create(&dev->bells[i].stream, CUDA_STREAM_NON_BLOCKING);
    if (result)
        dev->bells[i].stream = NULL;
    *bell = i < dev->n_bells ? dev->bells[i].stream : NULL;
    pthread_mutex_unlock(&dev->lock);
    return result;
}

/* The context is current. */
static int record(struct zero_device *dev, struct cuda_event *event, struct cuda_stream *stream)
{
    struct cuda_stream *bell = NULL;
    int err = zero__cuda_check(dev, dev->driver.event_record(event, stream), "recording an event");

    if (err || !dev->notify)
        return err;
    err = zero__cuda_check(dev, bell_of(dev, stream, &bell), "a bell for a stream");
    if (!err && bell)
        err = zero__cuda_check(dev, dev->driver.stream_wait(bell, event, 0),
                               "making a bell wait for an event");
    if (!err) /* without a bell the stream calls itself, at some cost */
        err = zero__cuda_check(dev, dev->driver.call(bell ? bell : stream, ring, dev),
                               "enqueueing a notice");
    return err;
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
