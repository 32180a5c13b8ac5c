/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Who is told of them is told by a stream beside the one that they are recorded on, its
 * bell: it waits for the event and then calls, so that the work behind the event does not wait for
 * the call. Making it do so takes longer than a launch, so it is done for an event that somebody
 * has asked for and not found: of a chain of ops those that are done meanwhile need none.
 */
#include "cuda.h"

#include <errno.h>
#include <stdlib.h>

struct cuda_mark {
    struct cuda_event *event;
    _Atomic(struct cuda_stream *) bell; /* of the stream it is recorded on; NULL: told already */
    atomic_bool asked;                  /* the bell will ring for it */
};

int zero__cuda_event_create(struct zero_device *dev, void **event)
{
    struct cuda_mark *m = calloc(1, sizeof *m);
    int err = m ? zero__cuda_enter(dev) : zero__say(&dev->voice, -ENOMEM, "no memory for an event");

    if (!err) {
        err = zero__cuda_check(dev, dev->driver.event_create(&m->event, CUDA_EVENT_DISABLE_TIMING),
                               "an event");
        zero__cuda_leave(dev);
    }
    if (err)
        free(m);
    else
        *event = m;
    return err;
}

int zero__cuda_event_destroy(struct zero_device *dev, void *event)
{
    struct cuda_mark *m = event;
    int err = zero__cuda_enter_to_end(dev);

    if (!err) {
        err = zero__cuda_check(dev, dev->driver.event_destroy(m->event), "destroying an event");
        zero__cuda_leave(dev);
    }
    free(m);
    return err;
}

struct cuda_event *zero__cuda_event_of(const void *event)
{
    return ((const struct cuda_mark *)event)->event;
}

/*
 * Called by the driver. What comes after close() has begun is for nobody; the device is there until
 * the last one has been counted.
 */
static void ring_of(struct zero_device *dev, bool bare)
{
    pthread_mutex_lock(&dev->notice);
    if (!dev->silent)
        dev->notify(dev->notify_arg);
    pthread_mutex_unlock(&dev->notice);
    atomic_fetch_sub(&dev->n_bare, bare);
    atomic_fetch_sub(&dev->n_ringing, 1); /* and it may be gone */
}

static void ring(void *dev)
{
    ring_of(dev, false);
}

static void ring_bare(void *dev)
{
    ring_of(dev, true);
}

/* Counted before the driver may call it. */
static int notice(struct zero_device *dev, struct cuda_stream *stream, bool bare)
{
    atomic_fetch_add(&dev->n_ringing, 1);
    atomic_fetch_add(&dev->n_bare, bare);
    int result = dev->driver.call(stream, bare ? ring_bare : ring, dev);
    if (result) {
        atomic_fetch_sub(&dev->n_bare, bare);
        atomic_fetch_sub(&dev->n_ringing, 1);
    }
    return zero__cuda_check(dev, result, "enqueueing a notice");
}

int zero__cuda_bell_make(struct zero_device *dev, struct cuda_bell *bell)
{
    int result = bell->stream ? 0
                              : dev->driver.stream_create_urgent(
                                    &bell->stream, CUDA_STREAM_NON_BLOCKING, dev->urgent);

    if (result)
        bell->stream = NULL;
    return result;
}

/*
 * The bell of a stream, made when the stream is first recorded. All streams of one priority share
 * the device's few queues of work, so bells have one of their own, and none can hold up work of
 * others (no difference was measured on an H100). NULL: there are too many. *own: the stream is the
 * plugin's.
 */
static int bell_of(struct zero_device *dev, struct cuda_stream *stream, struct cuda_stream **bell,
                   bool *own)
{
    uint32_t i = 0;
    int result = 0;

    pthread_mutex_lock(&dev->lock);
    while (i < dev->n_bells && dev->bells[i].of != stream)
        i++;
    if (i == dev->n_bells && i < CUDA_BELLS / 2) /* the others are for the device's own streams */
        dev->bells[dev->n_bells++] = (struct cuda_bell){.of = stream};
    if (i < dev->n_bells)
        result = zero__cuda_bell_make(dev, &dev->bells[i]);
    *bell = i < dev->n_bells ? dev->bells[i].stream : NULL;
    *own = i < dev->n_bells && dev->bells[i].own;
    pthread_mutex_unlock(&dev->lock);
    return result;
}

static int ring_after(struct zero_device *dev, struct cuda_stream *bell, struct cuda_event *event)
{
    int err = zero__cuda_check(dev, dev->driver.stream_wait(bell, event, 0),
                               "making a bell wait for an event");

    return err ? err : notice(dev, bell, false);
}

/* What is recorded in a capture is part of the graph: nobody could ask for it, or be told. */
static int capture_refuse(struct zero_device *dev, struct cuda_stream *stream)
{
    int status = 0, result = dev->driver.is_capturing(stream, &status);

    if (!result && status)
        result = CUDA_CAPTURE_UNSUPPORTED;
    return zero__cuda_check(dev, result, "recording an event");
}

/*
 * The context is current. The bell of an application's stream waits at once, since it stands for
 * the stream, which may be gone, where memory is to be freed; see zero__cuda_streams_drain().
 */
static int record(struct zero_device *dev, struct cuda_mark *m, struct cuda_stream *stream)
{
    struct cuda_stream *bell = NULL;
    bool own;
    int err = capture_refuse(dev, stream);

    if (!err)
        err = zero__cuda_check(dev, dev->driver.event_record(m->event, stream),
                               "recording an event");
    m->bell = NULL;
    if (err || !dev->notify)
        return err;
    err = zero__cuda_check(dev, bell_of(dev, stream, &bell, &own), "a bell for a stream");
    if (err)
        return err;
    if (bell && own) {
        atomic_store(&m->asked, false);
        m->bell = bell;
        return 0;
    }
    if (bell)
        return ring_after(dev, bell, m->event);
    /* Without a bell the stream calls itself, at some cost. */
    return notice(dev, stream, true);
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
    struct cuda_mark *m = event;
    int result, err = zero__cuda_enter(dev);

    if (err)
        return err;
    result = dev->driver.event_query(m->event);
    if (result == CUDA_NOT_READY && m->bell && !atomic_exchange(&m->asked, true))
        err = ring_after(dev, m->bell, m->event);
    zero__cuda_leave(dev);
    if (err)
        return err;
    return result == CUDA_NOT_READY ? -EINPROGRESS
                                    : zero__cuda_check(dev, result, "asking for an event");
}
