/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, and what is enqueued on them but kernels. */
#include "cuda.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "machine/clock.h"

#define PAUSE_MIN_NS 10000
#define PAUSE_MAX_NS 20000 /* what a step may lose at its end, for some percent of a processor */
#define SLACK_NS 1         /* by itself a thread sleeps some 50 us longer */

/* A bell that nobody uses, or room for one; lock held. */
static struct cuda_bell *bell_free(struct zero_device *dev)
{
    for (uint32_t i = 0; i < dev->n_bells; i++)
        if (!dev->bells[i].of)
            return &dev->bells[i];
    if (dev->n_bells == CUDA_BELLS)
        return NULL;
    dev->bells[dev->n_bells] = (struct cuda_bell){0};
    return &dev->bells[dev->n_bells++];
}

/* The context is current. */
static int create(struct zero_device *dev, const char *name, struct cuda_stream **stream)
{
    struct cuda_bell *bell;
    int err = 0, result = 0;

    pthread_mutex_lock(&dev->lock);
    bell = bell_free(dev);
    if (bell)
        result = dev->driver.stream_create(&bell->of, CUDA_STREAM_NON_BLOCKING);
    if (bell && !result) {
        bell->own = true;
        *stream = bell->of;
    }
    pthread_mutex_unlock(&dev->lock);
    if (!bell)
        err = zero__say(&dev->voice, -ENOSPC, "stream %s: there are %d streams already", name,
                        CUDA_BELLS);
    return err ? err : zero__cuda_check(dev, result, "stream %s", name);
}

int zero__cuda_stream_create(struct zero_device *dev, const char *name, void **stream)
{
    struct cuda_stream *s = NULL;
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    err = create(dev, name, &s);
    zero__cuda_leave(dev);
    if (!err)
        *stream = s;
    return err;
}

/* The bell stands for a stream that goes: memory stays until what was enqueued there has ended. */
static int bell_follows(struct zero_device *dev, struct cuda_stream *bell,
                        struct cuda_stream *stream)
{
    struct cuda_event *end = NULL;
    int result = dev->driver.event_create(&end, CUDA_EVENT_DISABLE_TIMING), last;

    if (result)
        return result;
    result = dev->driver.event_record(end, stream);
    if (!result)
        result = dev->driver.stream_wait(bell, end, 0);
    last = dev->driver.event_destroy(end);
    return result ? result : last;
}

/* Its bell may still have to ring, and stays for another stream. */
int zero__cuda_stream_destroy(struct zero_device *dev, void *stream)
{
    struct cuda_bell *bell = NULL;
    struct cuda_stream *ringing = NULL;
    int err = zero__cuda_enter_to_end(dev), result = 0;

    if (err)
        return err;
    pthread_mutex_lock(&dev->lock);
    for (uint32_t i = 0; i < dev->n_bells && stream && !bell; i++)
        if (dev->bells[i].own && dev->bells[i].of == stream)
            bell = &dev->bells[i];
    if (bell) {
        result = zero__cuda_bell_make(dev, bell);
        ringing = bell->stream;
    }
    pthread_mutex_unlock(&dev->lock);
    /* The driver ends what is still enqueued before it frees it. */
    if (!bell) {
        err = zero__say(&dev->voice, -EINVAL, "%p is not a stream of this device", stream);
    } else {
        if (ringing) /* who gives memory back sees the stream until its bell waits for it */
            result = bell_follows(dev, ringing, stream);
        pthread_mutex_lock(&dev->lock);
        bell->of = NULL;
        bell->own = false;
        pthread_mutex_unlock(&dev->lock);
        int last = dev->driver.stream_destroy(stream);
        err = zero__cuda_check(dev, result ? result : last, "destroying a stream");
    }
    zero__cuda_leave(dev);
    return err;
}

/* What may still be at memory: a driver's result, CUDA_NOT_READY as long as it is. */
typedef int query_fn(struct zero_device *dev, const void *arg);

/*
 * Memory goes when a stream has ended, so an answer that is neither yes nor no, and does not end
 * the context, is asked for once more.
 */
static int drain(struct zero_device *dev, query_fn *query, const void *arg, int64_t timeout_ns,
                 const char *what)
{
    int64_t until = zero__deadline_ns(timeout_ns);
    struct timespec pause = {0, PAUSE_MIN_NS};
    int result, doubts = 0, slack = -1;

    while ((result = query(dev, arg)) == CUDA_NOT_READY ||
           (result && !zero__cuda_sticks(result) && !doubts++)) {
        if (zero__now_ns() >= until)
            break;
        if (slack < 0 && (slack = prctl(PR_GET_TIMERSLACK)) > SLACK_NS)
            prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK_NS);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_MAX_NS)
            pause.tv_nsec *= 2; /* at most to PAUSE_MAX_NS: it is PAUSE_MIN_NS times a power of 2 */
    }
    if (slack > SLACK_NS) /* the thread is the application's */
        prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    if (result == CUDA_NOT_READY)
        return zero__say(&dev->voice, -ETIMEDOUT,
                         "%s: not done after %g s (ZERO_TIMEOUT): work on the GPU that takes "
                         "longer needs a larger one",
                         what, (double)timeout_ns / 1e9);
    return zero__cuda_check(dev, result, "%s", what);
}

static int stream_query(struct zero_device *dev, const void *stream)
{
    return dev->driver.stream_query((struct cuda_stream *)(uintptr_t)stream);
}

/* Its stream, if that is the plugin's and still there, and what the bell itself waits for. */
static int bell_query(struct zero_device *dev, const void *arg)
{
    const uint32_t i = *(const uint32_t *)arg;
    int result = 0;

    pthread_mutex_lock(&dev->lock); /* another thread may destroy the stream */
    if (i < dev->n_bells && dev->bells[i].own)
        result = dev->driver.stream_query(dev->bells[i].of);
    if (i < dev->n_bells && dev->bells[i].stream && !result)
        result = dev->driver.stream_query(dev->bells[i].stream);
    pthread_mutex_unlock(&dev->lock);
    return result;
}

static int bare_query(struct zero_device *dev, const void *arg)
{
    (void)arg;
    return atomic_load(&dev->n_bare) > 0 ? CUDA_NOT_READY : CUDA_SUCCESS;
}

int zero__cuda_drain(struct zero_device *dev, struct cuda_stream *stream, int64_t timeout_ns,
                     const char *what)
{
    return drain(dev, stream_query, stream, timeout_ns, what);
}

int zero__cuda_streams_drain(struct zero_device *dev, const char *what)
{
    int err = zero__cuda_drain(dev, dev->own, dev->timeout_ns, what);

    for (uint32_t i = 0; i < CUDA_BELLS && !err; i++)
        err = drain(dev, bell_query, &i, dev->timeout_ns, what);
    return err ? err : drain(dev, bare_query, NULL, dev->timeout_ns, what);
}

int zero__cuda_stream_sync(struct zero_device *dev, void *stream, int64_t timeout_ns)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    err = zero__cuda_drain(dev, stream, timeout_ns, "waiting for a stream");
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_stream_wait(struct zero_device *dev, void *stream, void *event)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    err = zero__cuda_check(dev, dev->driver.stream_wait(stream, zero__cuda_event_of(event), 0),
                           "making a stream wait for an event");
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_copy(struct zero_device *dev, void *dst, const void *src, uint64_t bytes,
                    void *stream)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    if (bytes)
        err = zero__cuda_check(dev, dev->driver.copy((uintptr_t)dst, (uintptr_t)src, bytes, stream),
                               "copying %llu bytes from %p to %p", (unsigned long long)bytes, src,
                               dst);
    if (!err)
        atomic_fetch_add_explicit(&dev->copied, bytes, memory_order_relaxed);
    zero__cuda_leave(dev);
    return err;
}

int zero__cuda_call(struct zero_device *dev, void (*fn)(void *arg), void *arg, void *stream)
{
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    err = zero__cuda_check(dev, dev->driver.call(stream, fn, arg), "enqueueing a function");
    zero__cuda_leave(dev);
    return err;
}
