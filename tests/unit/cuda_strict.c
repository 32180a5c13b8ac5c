/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver without a GPU does not let the device plugin cuda, or an application, get away
 * with, since that of a machine would not either: each a thing that a milder driver would hide.
 */
#include "cuda_open.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* The driver's, for what the plugin never does. */
#define DECLARE(member, symbol, parameters) int symbol parameters;
ZERO__CUDA_CALLS(DECLARE)
#undef DECLARE
int cuThreadExchangeStreamCaptureMode(int *mode);

/* A kernel; the error of the call, or of what it has enqueued. */
static int cast(struct zero_device *dev, float *to, const float *from, void *stream)
{
    struct zero_cast_args args = {to, from, 64, ZERO_F32, ZERO_F32};
    int err =
        d->launch(dev, &(struct zero_launch){ZERO_KERNEL_CAST, 0, &args, sizeof args}, stream);

    return err ? err : d->stream_sync(dev, stream, 10 * SECOND);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static void lost_alone(void)
{
    struct zero_device *a = opened(0), *b = opened(1);
    float *x = memory_of(a, 4096), *y = memory_of(b, 4096);
    void *s = stream_of(a), *t = stream_of(b), *e = event_of(b), *p = NULL;

    fake_cuda_break_gpu(0, 1, CUDA_ILLEGAL_ADDRESS);
    is_int(cast(b, y + 512, y, t), 0, "work of GPU 1 does not end the context of GPU 0");
    is_int(cast(a, x + 512, x, s), -EIO, "its own does");
    has_str(zero_last_error(), "the last kernel of this library was zero_cast_32_32",
            "and says so");
    is_int(d->alloc(a, 1, ZERO_MEM_CUDA, &p), -EIO, "it is lost");
    is_int(cast(b, y + 512, y, t), 0, "that of GPU 1 is well");
    int err = d->event_record(b, e, t);
    err = err ? err : d->stream_sync(b, t, 10 * SECOND);
    is_int(err ? err : d->event_query(b, e), 0, "with its events");
    d->event_destroy(b, e);
    is_int(d->close(a), 0, "the device closes all the same");
    is_int(device_open(0, &a), -EIO, "and is not to be had again");
    has_str(zero_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS", "for the same reason");
    ok(device_has(b, y, 4096, 0), "memory of GPU 1 is what it was");
    closed(b, "what was lost and what is well");
    fake_cuda_set(NULL);
}

/* ---- Default streams ------------------------------------------------------------------------- */

struct gate {
    atomic_int come, open;
    pthread_t thread; /* that has come */
};

/* A function of the host that stays until it is let go, ten seconds at most. */
static void waits_at(void *arg)
{
    struct gate *g = arg;

    g->thread = pthread_self();
    atomic_store(&g->come, 1);
    for (int i = 0; i < 10000 && !atomic_load(&g->open); i++)
        usleep(1000);
}

/* Whether the thing happens within ten seconds. */
static bool comes(atomic_int *thing)
{
    for (int i = 0; i < 10000 && !atomic_load(thing); i++)
        usleep(1000);
    return atomic_load(thing);
}

/* The handles 1 and 2: a stream each in each context; NULL is none. */
static void default_streams(void)
{
    void *const legacy = (void *)1, *const thread = (void *)2;
    struct zero_device *a = opened(0), *b = opened(1);
    float *x = memory_of(a, 4096), *y = memory_of(b, 4096);
    void *e = event_of(a);
    struct gate gate = {0};

    is_int(cast(a, x + 512, x, legacy), 0, "the default stream takes a kernel");
    is_int(cast(a, x + 512, x, thread), 0, "that of each thread, too");
    is_int(d->call(a, waits_at, &gate, legacy), 0, "a function waits in the one");
    int err = d->event_record(a, e, legacy);
    ok(!err && comes(&gate.come), "with an event behind it");
    is_int(d->event_query(a, e), -EINPROGRESS, "which is not reached");
    is_int(cast(a, x + 512, x, thread), 0, "the other is another stream");
    is_int(cast(b, y + 512, y, legacy), 0, "and so is that of another GPU");
    is_int(d->stream_sync(a, legacy, SECOND / 50), -ETIMEDOUT, "it is waited for");
    atomic_store(&gate.open, 1);
    is_int(d->stream_sync(a, legacy, 10 * SECOND), 0, "until it is done");
    is_int(d->event_query(a, e), 0, "the event is reached");
    ok(d->copy(a, x + 1, x, 4, NULL) == -EINVAL && d->event_record(a, e, NULL) == -EINVAL &&
           d->stream_sync(a, NULL, SECOND) == -EINVAL,
       "no stream is not the default stream");
    ok(cuStreamDestroy_v2(legacy) != 0, "nobody destroys it");
    d->event_destroy(a, e);
    d->close(b);
    closed(a, "default streams");
}

/* ---- Physical memory ------------------------------------------------------------------------- */

#define CHUNK (64 * KIB) /* the least there is */

static uint64_t bytes_used(void)
{
    struct fake_cuda_live live;

    fake_cuda_live(&live);
    return live.bytes;
}

static int shared(struct zero_device *dev, void *base, struct zero_device_share *share)
{
    *share = (struct zero_device_share){.size = sizeof *share};
    return d->share(dev, base, share);
}

/* What another device has attached stays, and counts, when it is released where it was made. */
static void attached_stays(void)
{
    struct zero_device *a = opened(0), *b = opened(1);
    struct zero_device_info info = {.size = sizeof info};
    struct zero_device_share share;
    void *p = memory_of(a, 10 * KIB), *q = NULL;

    int err = shared(a, p, &share);
    err = err ? err : d->attach(b, &share, &q);
    is_int(err, 0, "memory is attached by another device");
    close(share.fd);
    is_int(d->release(a, p, 10 * KIB, ZERO_MEM_CUDA), 0, "and released where it was made");
    is_int(bytes_used(), CHUNK, "it is still there");
    d->info(a, &info);
    is_int(info.free_bytes, 256 * KIB * KIB - CHUNK, "it is not free");
    ok(device_has(b, q, 10 * KIB, 0), "it can be read");
    is_int(d->detach(b, q), 0, "it is detached");
    is_int(bytes_used(), 0, "and gone");
    d->close(b);
    closed(a, "memory that was attached");
}

/* The same of a descriptor that another process has. */
static void elsewhere_stays(void)
{
    struct zero_device *dev = opened(0);
    struct zero_device_share share;
    void *p = memory_of(dev, 10 * KIB);

    is_int(shared(dev, p, &share), 0, "memory is shared");
    pid_t pid = fork();
    if (pid < 0)
        bail("cannot fork");
    if (pid == 0) {
        alarm(60);
        for (;;)
            pause();
    }
    close(share.fd);
    is_int(d->release(dev, p, 10 * KIB, ZERO_MEM_CUDA), 0, "and released");
    is_int(bytes_used(), CHUNK, "it is there as long as another process has its descriptor");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    is_int(bytes_used(), 0, "and goes with that");
    closed(dev, "memory that another process had");
}

/* ---- Memory of another GPU ------------------------------------------------------------------- */

/* Ways to touch `there` from a device and its stream; `here` is its own memory. */
static int by_kernel(struct zero_device *dev, float *here, float *there, void *stream)
{
    return cast(dev, here, there, stream);
}

static int by_copy(struct zero_device *dev, float *here, float *there, void *stream)
{
    int err = d->copy(dev, here, there, 256, stream);

    return err ? err : d->stream_sync(dev, stream, 10 * SECOND);
}

static int by_set(struct zero_device *dev, float *here, float *there, void *stream)
{
    struct cuda_context *context;

    (void)here;
    if (cuDevicePrimaryCtxRetain(&context, 1) || cuCtxPushCurrent_v2(context))
        bail("no context");
    int result = cuMemsetD8Async((uintptr_t)there, 0, 256, stream);
    cuCtxPopCurrent_v2(&context);
    cuDevicePrimaryCtxRelease_v2(1);
    return result ? -EINVAL : d->stream_sync(dev, stream, 10 * SECOND);
}

static int by_library(struct zero_device *dev, float *here, float *there, void *stream)
{
    (void)here;
    fake_cuda_reach_all(1, there, 256);
    return d->stream_sync(dev, stream, 10 * SECOND);
}

static const struct way {
    const char *what;
    int (*go)(struct zero_device *dev, float *here, float *there, void *stream);
    bool plainly; /* goes with memory of cuMemAlloc() */
} ways[] = {{"a kernel", by_kernel, false},
            {"a copy", by_copy, true},
            {"setting bytes", by_set, false},
            {"a library", by_library, false}};

enum access { PLAIN, NONE, GIVEN };

/* GPU 1 touches memory of GPU 0. */
static void touches(const struct way *way, enum access access)
{
    static const char *const names[] = {"plain", "without access to it", "with access to it"};
    const struct cuda_access to_other = {{CUDA_LOCATION_DEVICE, 1}, CUDA_ACCESS_READ_WRITE};
    bool good = access == PLAIN ? way->plainly : access == GIVEN;
    struct fake_cuda_settings set = fake_cuda_defaults();
    struct fake_cuda_work before, after;

    set.has_virtual = access != PLAIN;
    fake_cuda_set(&set);
    struct zero_device *a = opened(0), *b = opened(1);
    float *x = memory_of(a, 4096), *y = memory_of(b, 4096);
    void *s = stream_of(a), *t = stream_of(b);
    if (access == GIVEN && cuMemSetAccess((uintptr_t)x, CHUNK, &to_other, 1))
        bail("no access");
    fake_cuda_work(&before);
    is_int(way->go(b, y, x, t), good ? 0 : -EIO, "%s on memory of another GPU, %s: %s", way->what,
           names[access], good ? "goes" : "ends the context");
    fake_cuda_work(&after);
    is_int(after.illegal - before.illegal, !good, "and counts");
    is_int(cast(a, x + 512, x, s), 0, "whose memory it is stays well");
    d->close(b);
    closed(a, "memory of another GPU");
    fake_cuda_set(NULL);
}

static void access_refused(void)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE + 1, 1}, CUDA_ACCESS_READ_WRITE};
    struct zero_device *dev = opened(0);
    cuda_address x = (uintptr_t)memory_of(dev, 4096);

    is_int(cuMemSetAccess(x, CHUNK, &access, 1), CUDA_INVALID_VALUE, "access is given to GPUs");
    access.location = (struct cuda_location){CUDA_LOCATION_DEVICE, 2};
    is_int(cuMemSetAccess(x, CHUNK, &access, 1), CUDA_INVALID_DEVICE, "that there are");
    closed(dev, "access that was refused");
}

/* ---- Captures -------------------------------------------------------------------------------- */

enum { RELAXED = 2, CAPTURE_UNSUPPORTED = 900, CAPTURED_EVENT = 907 };

/* What an application's thread may do while another one captures. */
static void refused_in_capture(void *stream)
{
    struct cuda_context *context;
    cuda_address base = 0;
    int mode = RELAXED;

    if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent_v2(context))
        bail("no context");
    is_int(cuStreamQuery(stream), CAPTURE_UNSUPPORTED, "nobody asks a stream during a capture");
    is_int(cuMemAlloc_v2(&base, 4096), CAPTURE_UNSUPPORTED, "nor takes memory");
    ok(!cuThreadExchangeStreamCaptureMode(&mode) && mode == 0, "but who has said that he knows");
    is_int(cuStreamQuery(stream), 0, "may ask");
    ok(!cuMemAlloc_v2(&base, 4096) && !cuMemFree_v2(base), "and take memory");
    ok(!cuThreadExchangeStreamCaptureMode(&mode) && mode == RELAXED, "and goes back");
    mode = 3;
    is_int(cuThreadExchangeStreamCaptureMode(&mode), CUDA_INVALID_VALUE, "there are three modes");
    cuCtxPopCurrent_v2(&context);
    cuDevicePrimaryCtxRelease_v2(0);
}

/* The plugin does what it has to; the application's capture is none of its business. */
static void captures(void)
{
    struct zero_device *dev = opened(0), *other = NULL;
    float *x = memory_of(dev, 4096);
    void *s = stream_of(dev), *e = event_of(dev), *p = NULL, *pinned = NULL;
    int err = cast(dev, x + 512, x, s);

    err = err ? err : d->event_record(dev, e, s);
    is_int(err ? err : d->stream_sync(dev, s, 10 * SECOND), 0, "before the capture");
    fake_cuda_capture(1);
    refused_in_capture(s);
    is_int(d->event_query(dev, e), 0, "the plugin asks for an event during a capture");
    is_int(d->stream_sync(dev, s, 10 * SECOND), 0, "and waits for a stream");
    is_int(d->alloc(dev, 4096, ZERO_MEM_CUDA, &p), 0, "and takes memory");
    is_int(d->alloc(dev, 4096, ZERO_MEM_PINNED, &pinned), 0, "pinned, too");
    if (pinned)
        is_int(d->release(dev, pinned, 4096, ZERO_MEM_PINNED), 0, "and gives it back");
    if (p)
        is_int(d->release(dev, p, 4096, ZERO_MEM_CUDA), 0, "that of the GPU, too");
    is_int(device_open(1, &other), 0, "another device is opened");
    if (other)
        is_int(d->close(other), 0, "and closed");
    fake_cuda_fail(1, CAPTURED_EVENT);
    is_int(d->event_query(dev, e), -EINVAL, "one that was recorded in the capture is a mistake");
    has_str(zero_last_error(), "end the capture before zero_acquire()", "with the remedy");
    fake_cuda_fail(0, 0);
    fake_cuda_capture_stream(s);
    is_int(d->event_record(dev, e, s), -EINVAL, "no event is recorded in a capture");
    has_str(zero_last_error(), "end the capture before zero_acquire()", "with the same remedy");
    fake_cuda_capture_stream(NULL);
    is_int(d->event_record(dev, e, s), 0, "afterwards it is");
    is_int(d->stream_sync(dev, s, 10 * SECOND), 0, "and is reached");
    is_int(d->event_destroy(dev, e), 0, "an event goes");
    closed(dev, "what was used during a capture");
    fake_cuda_set(NULL);
}

/* ---- Functions of the host ------------------------------------------------------------------- */

/* Of two streams: at the same time, or one after the other where the driver has one thread. */
static void functions(bool one_caller)
{
    struct gate first = {0}, second = {.open = 1};

    setenv("FAKE_CUDA", one_caller ? "one_caller=1" : "one_caller=0", 1);
    fake_cuda_set(NULL);
    struct zero_device *dev = opened(0);
    void *s = stream_of(dev), *t = stream_of(dev);
    int err = d->call(dev, waits_at, &first, s);
    ok(!err && comes(&first.come), "a function is called, and stays");
    is_int(d->call(dev, waits_at, &second, t), 0, "another one follows in another stream");
    if (one_caller)
        ok(d->stream_sync(dev, t, SECOND / 20) == -ETIMEDOUT && !atomic_load(&second.come),
           "which waits for it");
    else
        is_int(d->stream_sync(dev, t, 10 * SECOND), 0, "which does not wait for it");
    atomic_store(&first.open, 1);
    is_int(d->stream_sync(dev, s, 10 * SECOND), 0, "it ends");
    ok(!d->stream_sync(dev, t, 10 * SECOND) && atomic_load(&second.come), "both have been called");
    is_int(pthread_equal(first.thread, second.thread) != 0, one_caller, "by %s",
           one_caller ? "one thread" : "two threads");
    closed(dev, "functions");
    unsetenv("FAKE_CUDA");
    fake_cuda_set(NULL);
}

int main(void)
{
    plugin_open();
    lost_alone();
    default_streams();
    attached_stays();
    elsewhere_stays();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int access = PLAIN; access <= GIVEN; access++)
            touches(&ways[i], (enum access)access);
    access_refused();
    captures();
    functions(false);
    functions(true);
    plugin_close();
    done();
}
