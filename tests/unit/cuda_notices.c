/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin cuda has told the driver to call, and what it remembers of streams that are gone:
 * memory, and the device itself, stay until that has come.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <zero/zero.h>

#include "../fake/cuda_inside.h"
#include "../fake/cuda_left.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "plugin/loader.h"

#define SECOND INT64_C(1000000000)
#define MANY 40 /* streams: more than have a bell, see CUDA_BELLS */

static struct zero__loader *loader;
static const struct zero_device_ops *d;

static void notify(void *arg)
{
    (void)arg;
}

static struct zero_device *opened(int64_t timeout_ns)
{
    struct zero_device_open p = {.size = sizeof p,
                                 .host = zero__loader_host(loader),
                                 .threads = 1,
                                 .timeout_ns = timeout_ns,
                                 .notify = notify};
    struct zero_device *dev = NULL;

    if (d->open(&p, &dev)) {
        diag("%s", zero_last_error());
        bail("the device cannot be opened");
    }
    return dev;
}

/* ---- Streams of an application, too many for a bell each --------------------------------------- */

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
    struct closing c = {.dev = opened(10 * SECOND)};
    struct cuda_stream *s[MANY];
    struct cuda_context *context;
    void *event;
    int err = cuDevicePrimaryCtxRetain(&context, 0) | cuCtxPushCurrent_v2(context);

    for (int i = 0; i < MANY; i++)
        err |= cuStreamCreate(&s[i], CUDA_STREAM_NON_BLOCKING);
    cuCtxPopCurrent_v2(&context);
    err |= d->event_create(c.dev, &event);
    for (int i = 0; i < MANY - 1; i++)
        err |= d->event_record(c.dev, event, s[i]);
    err |= d->stream_sync(c.dev, s[MANY - 2], 10 * SECOND);
    fake_cuda_hold(1);
    err |= d->event_record(c.dev, event, s[MANY - 1]);
    err |= d->event_destroy(c.dev, event);
    pthread_create(&c.thread, NULL, close_it, &c);
    usleep(200000);
    ok(!err && !atomic_load(&c.is_over), "a device waits for the notice of a stream without a bell");
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
    struct zero_device *dev = opened(SECOND / 20);
    void *memory = NULL, *pinned = NULL, *stream;
    int err = d->alloc(dev, 4096, ZERO_MEM_CUDA, &memory);

    err = err ? err : d->alloc(dev, 4096, ZERO_MEM_PINNED, &pinned);
    err = err ? err : d->stream_create(dev, "copies", &stream);
    fake_cuda_hold(1);
    err = err ? err : d->copy(dev, pinned, memory, 4096, stream);
    err = err ? err : d->stream_destroy(dev, stream);
    is_int(err, 0, "a stream is destroyed with a copy under way");
    is_int(d->release(dev, memory, 4096, ZERO_MEM_CUDA), -ETIMEDOUT,
           "what it copies does not go before it is done");
    fake_cuda_hold(0);
    is_int(d->close(dev), 0, "it goes with the device");
    ok(nothing_left(), "nothing is left");
    fake_cuda_set(NULL);
}

int main(void)
{
    struct zero__log log = {0};
    struct zero__options *options;
    struct zero__plugin *plugin;
    char why[256];

    alarm(60);
    zero__log_levels(&log, "error", why, sizeof why);
    if (zero__options_load(NULL, 0, &options) ||
        zero__loader_create(options, &log, NULL, 0, &loader) ||
        zero__loader_load(loader, ZERO_IFACE_DEVICE, "cuda", &plugin)) {
        diag("%s", zero_last_error());
        bail("the plugin cannot be loaded");
    }
    d = zero__plugin_device(plugin);
    many_streams();
    destroyed_at_work();
    zero__loader_free(loader);
    zero__options_free(options);
    done();
}
