/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin cuda has told the driver to call, and what it remembers of streams that are gone:
 * memory, and the device itself, stay until that has come.
 */
#include "cuda_open.h"

#include <errno.h>
#include <pthread.h>

#include "../fake/cuda_inside.h"

#define MANY 40 /* streams: more than have a bell, see CUDA_BELLS */

/* ---- Streams of an application, too many for a bell each ------------------------------------- */

struct closing {
    pthread_t thread;
    struct zero_device *dev;
    atomic_int is_over;
    int err;
};

static void *close_it(void *arg)
{
    struct closing *c = arg;

    c->err = d->close(c->dev);
    atomic_store(&c->is_over, 1);
    return NULL;
}

static void many_streams(void)
{
    struct closing c = {.dev = opened(0)};
    struct cuda_stream *s[MANY];
    struct cuda_context *context;
    void *event = event_of(c.dev);
    int err = cuDevicePrimaryCtxRetain(&context, 0) | cuCtxPushCurrent_v2(context);

    for (int i = 0; i < MANY; i++)
        err |= cuStreamCreate(&s[i], CUDA_STREAM_NON_BLOCKING);
    cuCtxPopCurrent_v2(&context);
    for (int i = 0; i < MANY - 1; i++)
        err |= d->event_record(c.dev, event, s[i]);
    err |= d->stream_sync(c.dev, s[MANY - 2], 10 * SECOND);
    fake_cuda_hold(1);
    err |= d->event_record(c.dev, event, s[MANY - 1]);
    err |= d->event_destroy(c.dev, event);
    pthread_create(&c.thread, NULL, close_it, &c);
    usleep(200000);
    ok(!err && !atomic_load(&c.is_over),
       "a device waits for the notice of a stream without a bell");
    fake_cuda_hold(0);
    pthread_join(c.thread, NULL);
    is_int(c.err, 0, "and closes when it has come");
    cuCtxPushCurrent_v2(context);
    for (int i = 0; i < MANY; i++)
        cuStreamDestroy_v2(s[i]);
    cuCtxPopCurrent_v2(&context);
    cuDevicePrimaryCtxRelease_v2(0);
    ok(nothing_left(), "nothing is left");
    fake_cuda_set(NULL);
}

/* ---- A stream that is gone ------------------------------------------------------------------- */

/* No event was ever recorded on it. */
static void destroyed_at_work(void)
{
    patience = SECOND;
    struct zero_device *dev = opened(0);
    patience = 10 * SECOND;
    void *memory = memory_of(dev, 4096), *stream = stream_of(dev), *pinned = NULL;
    int err = d->alloc(dev, 4096, ZERO_MEM_PINNED, &pinned);

    fake_cuda_hold(1);
    err = err ? err : d->copy(dev, pinned, memory, 4096, stream);
    err = err ? err : d->stream_destroy(dev, stream);
    is_int(err, 0, "a stream is destroyed with a copy under way");
    is_int(d->release(dev, memory, 4096, ZERO_MEM_CUDA), -ETIMEDOUT,
           "what it copies does not go before it is done");
    fake_cuda_hold(0);
    closed(dev, "it goes with the device");
    fake_cuda_set(NULL);
}

int main(void)
{
    alarm(60);
    plugin_open();
    many_streams();
    destroyed_at_work();
    plugin_close();
    done();
}
