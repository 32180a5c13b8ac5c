/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a GPU's memory while a stream still works on it: that is waited for, by the device and
 * at the end of a runtime, after an error, too. Over a driver that executes on the host.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <zero/zero.h>

#include "../../plugins/cuda/driver.h"
#include "../fake/cuda_left.h"
#include "base/log.h"
#include "base/options.h"
#include "plugin/loader.h"
#include "try.h"

#define SECOND INT64_C(1000000000)
#define ELEMENTS (1 << 14)
#define LOOKS 500 /* of the end at streams: it waits for one */

/* The driver's, for a stream that is the application's own. */
#define DECLARE(member, symbol, parameters) int symbol parameters;
ZERO__CUDA_CALLS(DECLARE)
#undef DECLARE

static atomic_int ended;

static int started(struct zero_runtime **rt, uint32_t *unit, uint32_t *param)
{
    struct zero_setting s[] = {{"device", "cuda:0"}, {"timeout", "20"}, {"threads", "1"}};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_param_desc d = {.size = sizeof d,
                                .name = "w",
                                .dtype = ZERO_F32,
                                .n_dims = 1,
                                .dims = {ELEMENTS},
                                .init = {.kind = ZERO_INIT_NORMAL, .b = 1}};

    c.settings = s;
    c.n_settings = 3;
    c.ranks = c.local_ranks = 1;
    c.job = "cuda-ends";
    c.log = log_nothing;
    TRY(zero_create(&c, rt));
    TRY(zero_unit_add(*rt, "unit", unit));
    TRY(zero_param_add(*rt, *unit, &d, param));
    TRY(zero_commit(*rt));
    return zero_begin(*rt, ZERO_TRAIN, 1);
}

static void *end_main(void *rt)
{
    zero_destroy(rt);
    atomic_store(&ended, 1);
    return NULL;
}

/* The use is not over in a stream of the library's; in the application's own it was released. */
static void ends(int own)
{
    static float got[ELEMENTS];
    struct zero_runtime *rt = NULL;
    struct cuda_context *context;
    struct fake_cuda_work before, after;
    uint32_t unit, param;
    pthread_t thread;
    struct cuda_stream *theirs = NULL;
    void *stream = NULL;

    fake_cuda_set(NULL);
    int err = started(&rt, &unit, &param);
    if (err)
        bail(zero_last_error());
    if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent_v2(context))
        bail("no context");
    if (own ? zero_stream_create(rt, &stream)
            : cuStreamCreate(&theirs, CUDA_STREAM_NON_BLOCKING))
        bail("no stream");
    stream = own ? stream : theirs;
    err = zero_acquire(rt, unit, ZERO_FORWARD, stream);
    uintptr_t at = err ? 0 : (uintptr_t)zero_param(rt, param);
    fake_cuda_work(&before);
    fake_cuda_hold(1);
    err = err ? err : cuMemcpyAsync((uintptr_t)got, at, sizeof got, stream);
    zero_abort(rt, "the test ends it");
    ok(!err && (own || zero_release(rt, unit, ZERO_FORWARD, stream) == -ECANCELED),
       "a runtime fails while a stream%s works", own ? "" : " of the application's own");

    uint64_t looks = fake_cuda_called("cuStreamQuery");
    atomic_store(&ended, 0);
    pthread_create(&thread, NULL, end_main, rt);
    while (!atomic_load(&ended) && fake_cuda_called("cuStreamQuery") - looks < LOOKS)
        usleep(1000);
    fake_cuda_hold(0);
    pthread_join(thread, NULL);
    if (!own)
        cuStreamDestroy_v2(theirs);
    cuCtxPopCurrent_v2(&context);
    cuDevicePrimaryCtxRelease_v2(0);
    bool all_left = nothing_left(); /* what the stream had to do is done */
    fake_cuda_work(&after);
    ok(after.illegal == before.illegal, "its memory stays until the stream is done");
    ok(all_left, "and goes then");
}

/* What does not end in time leaves the memory to close(). */
static void stays(const struct zero_device_ops *d, const struct zero_host *host)
{
    const struct zero_device_open params = {
        .size = sizeof params, .host = host, .threads = 1, .timeout_ns = SECOND};
    const uint64_t bytes = 100 << 10;
    struct fake_cuda_live live;
    struct fake_cuda_work before, after;
    struct zero_device *dev = NULL;
    static char got[64];
    void *p = NULL, *stream = NULL;

    fake_cuda_set(NULL);
    if (d->open(&params, &dev) || d->alloc(dev, bytes, ZERO_MEM_CUDA, &p) ||
        d->stream_create(dev, "works", &stream))
        bail(zero_last_error());
    fake_cuda_work(&before);
    fake_cuda_hold(1);
    int err = d->copy(dev, got, p, sizeof got, stream);
    ok(!err && d->release(dev, p, bytes, ZERO_MEM_CUDA) == -ETIMEDOUT,
       "memory that a stream works on is not released");
    has_str(zero_last_error(), "releasing memory: not done after 1 s", "the sentence says so");
    fake_cuda_live(&live);
    ok(live.maps == 1 && live.chunks == 1, "it is still there");
    fake_cuda_hold(0);
    is_int(d->stream_sync(dev, stream, 10 * SECOND), 0, "the stream ends");
    fake_cuda_work(&after);
    is_int(after.illegal - before.illegal, 0, "and has found it");
    err = d->close(dev);
    ok(!err && nothing_left(), "close() gives it back");
}

static void device_alone(void)
{
    struct zero__log log = {0};
    struct zero__options *options;
    struct zero__loader *loader;
    struct zero__plugin *plugin;
    char why[256];

    zero__log_levels(&log, "error", why, sizeof why);
    if (zero__options_load(NULL, 0, &options) ||
        zero__loader_create(options, &log, NULL, 0, &loader) ||
        zero__loader_load(loader, ZERO_IFACE_DEVICE, "cuda", &plugin))
        bail(zero_last_error());
    stays(zero__plugin_device(plugin), zero__loader_host(loader));
    zero__loader_free(loader);
    zero__options_free(options);
}

int main(void)
{
    alarm(120);
    device_alone();
    ends(1);
    ends(0);
    done();
}
