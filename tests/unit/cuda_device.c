/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device plugin cuda, its file as it is installed, over a driver that the test brings: memory,
 * copies, events, growth, sharing, kernels, and what becomes of every error.
 */
#include "cuda_open.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "../rank/try.h"

#define SILENCE "nothing was said"

/* ---- What it is ------------------------------------------------------------------------------ */

static void describes(void)
{
    struct zero_device_info info = {.size = sizeof info};
    struct zero_device *dev = opened(0);

    is_int(d->probe(zero__loader_host(loader), &info), 0, "the probe finds it");
    has_str(info.note, "Emulated GPU 0", "and names it");
    is_int(d->info(dev, &info), 0, "an open device says what it is");
    is_int(info.mem, ZERO_MEM_CUDA, "its memory is its own");
    is_int(info.memory_bytes, 256 * KIB * KIB, "how much it has");
    is_int(info.kernels, 0x3ff, "all kernels");
    closed(dev, "a device that did nothing");
}

static void refuses(const struct fake_cuda_settings *s, const char *word, const char *remedy,
                    const char *what)
{
    struct zero_device_info info = {.size = sizeof info};

    fake_cuda_set(s);
    int err = d->probe(zero__loader_host(loader), &info);
    ok(err < 0 && strstr(zero_last_error(), word) && strstr(zero_last_error(), remedy),
       "%s is refused with the remedy", what);
    if (err >= 0 || !strstr(zero_last_error(), word) || !strstr(zero_last_error(), remedy))
        diag("%d: %s", err, zero_last_error());
    ok(nothing_left(), "and leaves nothing");
    fake_cuda_set(NULL);
}

static void bad_machines(void)
{
    struct fake_cuda_settings s = fake_cuda_defaults();
    struct zero_device *dev;

    s.devices = 0;
    refuses(&s, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES", "a machine without a GPU");
    s = fake_cuda_defaults();
    s.version = 11040;
    refuses(&s, "for CUDA 11.4", "install a driver for CUDA", "an old driver");
    s = fake_cuda_defaults();
    s.init = CUDA_STUB_LIBRARY;
    refuses(&s, "STUB_LIBRARY", "LD_LIBRARY_PATH", "a stub");
    s.init = CUDA_SYSTEM_DRIVER_MISMATCH;
    refuses(&s, "MISMATCH", "restart the machine", "a driver that was updated");
    s.init = CUDA_UNKNOWN;
    refuses(&s, "UNKNOWN", "/dev/nvidia", "a driver without its files");
    s = fake_cuda_defaults();
    s.capability = 75;
    refuses(&s, "compute capability 7.5", "ZERO_DEVICE=cuda:N", "an old GPU");

    ok(device_open(2, &dev) == -ENODEV, "GPU 2 of 2 is not there");
    has_str(zero_last_error(), "there is no GPU 2: this process sees 2", "it says how many are");
    has_str(zero_last_error(), "ZERO_DEVICE=cuda:0", "and what to do");
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    ok(device_open(2, &dev) == -ENODEV && strstr(zero_last_error(), "(CUDA_VISIBLE_DEVICES=5)"),
       "nor where some are hidden");
    has_str(zero_last_error(), "each rank that sees one GPU of its own takes ZERO_DEVICE=cuda:0",
            "which has a remedy of its own");
    unsetenv("CUDA_VISIBLE_DEVICES");
    ok(device_open(-1, &dev) == -ENODEV, "nor is GPU -1");
    ok(nothing_left(), "nothing is left");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void copies(void)
{
    struct zero_device *dev = opened(0);
    const uint64_t n = 100 * KIB;
    unsigned char *a = memory_of(dev, n), *b = memory_of(dev, n);
    void *pinned = NULL, *s = stream_of(dev);
    struct zero_device_info info = {.size = sizeof info};
    struct fake_cuda_work before, after;

    ok(device_has(dev, a, n, 0), "memory of the device begins as zeros");
    is_int(d->alloc(dev, n, ZERO_MEM_PINNED, &pinned), 0, "there is pinned memory");
    ok(all_are(pinned, n, 0), "it begins as zeros, too");
    memset(pinned, 7, n);
    fake_cuda_work(&before);
    int err = d->copy(dev, a, pinned, n, s);
    err = err ? err : d->copy(dev, b + 1, a + 2, n - 2, s);
    memset((char *)pinned + n - 1, 7, 1);
    err = err ? err : d->copy(dev, pinned, b, n, s);
    err = err ? err : d->stream_sync(dev, s, 10 * SECOND);
    is_int(err, 0, "to the device, on it, and back");
    unsigned char *p = pinned;
    ok(p[0] == 0 && all_are(p + 1, n - 2, 7) && p[n - 1] == 0, "in order, byte by byte");
    fake_cuda_work(&after);
    is_int(after.pageable - before.pageable, 0, "all of it beside the host");
    d->info(dev, &info);
    ok(info.copied >= 3 * n - 2, "bytes are counted");

    void *plain = aligned_alloc(4096, 8192);
    is_int(d->pin(dev, plain, 8192), 0, "memory of the host can be pinned");
    err = d->copy(dev, plain, a, 8192, s);
    d->stream_sync(dev, s, 10 * SECOND);
    fake_cuda_work(&before);
    ok(!err && before.pageable == after.pageable, "and is as good then");
    is_int(d->unpin(dev, plain, 8192), 0, "and be let go");
    ok(d->unpin(dev, plain, 8192) == -EINVAL, "once");
    free(plain);
    ok(d->release(dev, a + 1, n, ZERO_MEM_CUDA) == -EINVAL, "a part is not released");
    ok(d->release(dev, pinned, n, ZERO_MEM_CUDA) == -EINVAL, "nor another kind");
    is_int(d->release(dev, pinned, n, ZERO_MEM_PINNED), 0, "pinned memory is released");
    is_int(d->release(dev, a, n, ZERO_MEM_CUDA), 0, "so is the device's");
    is_int(d->stream_destroy(dev, s), 0, "the stream goes");
    closed(dev, "what was not released");
}

static void grows(void)
{
    struct zero_device *dev = opened(0);
    const uint64_t n = 100 * KIB;
    unsigned char *p = memory_of(dev, n);
    void *s = stream_of(dev), *host = malloc(n);
    uint64_t calls = fake_cuda_called("cuMemcpyAsync"), size = n;
    int err = 0;

    memset(host, 9, n);
    d->copy(dev, p, host, n, s);
    d->stream_sync(dev, s, 10 * SECOND);
    for (int i = 0; i < 5 && !err; i++) {
        err = d->grow(dev, p, size, 90 * KIB + 5);
        size += 90 * KIB + 5;
    }
    is_int(err, 0, "memory grows five times");
    is_int(fake_cuda_called("cuMemcpyAsync") - calls, 1, "nothing is copied");
    is_int(fake_cuda_called("cuMemAddressReserve") > 0, 1, "in the range that was reserved");
    ok(device_has(dev, p, n, 9), "what was there is there");
    ok(device_has(dev, p + n, size - n, 0), "the rest is zeros");
    ok(d->grow(dev, p, n, 1) == -EINVAL, "by its length of now");
    ok(d->grow(dev, p, size, 100 * KIB * KIB) == 0, "far");
    size += 100 * KIB * KIB;
    memory_of(dev, 100 * KIB * KIB);
    err = d->grow(dev, p, size, 100 * KIB * KIB);
    ok(err == -ENOMEM && device_has(dev, p, n, 9), "not beyond the device's memory, and is kept");
    has_str(zero_last_error(), "are free", "the sentence says what is free");
    ok(d->grow(dev, p, size, 500 * KIB * KIB) == -ENOSPC, "not beyond its addresses");
    is_int(d->release(dev, p, size, ZERO_MEM_CUDA), 0, "it is released as one");
    d->stream_destroy(dev, s);
    free(host);
    closed(dev, "memory that has grown");
}

static void without_virtual_memory(void)
{
    struct fake_cuda_settings s = fake_cuda_defaults();
    struct fake_cuda_live l;

    s.has_virtual = 0;
    fake_cuda_set(&s);
    struct zero_device *dev = opened(0);
    void *p = memory_of(dev, 100 * KIB);
    fake_cuda_live(&l);
    ok(l.plain == 1 && l.ranges == 0,
       "without management of addresses memory is allocated plainly");
    ok(device_has(dev, p, 100 * KIB, 0), "and is zeros");
    ok(d->grow(dev, p, 100 * KIB, 1) == -ENOTSUP, "it does not grow");
    is_int(d->release(dev, p, 100 * KIB, ZERO_MEM_CUDA), 0, "it is released");
    closed(dev, "a device without");
    fake_cuda_set(NULL);
}

static void too_little(void)
{
    struct zero_device *dev = opened(0);
    void *p = NULL;

    ok(d->alloc(dev, 257 * KIB * KIB, ZERO_MEM_CUDA, &p) == -ENOMEM && !p,
       "more than there is, is refused");
    has_str(zero_last_error(), "GPU 0 (Emulated GPU 0): 268435456 of 268435456 are free",
            "the sentence says of what and how much");
    has_str(zero_last_error(), "ZERO_STAGE", "and what to do");
    ok(d->alloc(dev, 1, ZERO_MEM_HOST, &p) == -ENOTSUP, "it has no plain host memory");
    closed(dev, "a refusal");
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void adds(void *arg)
{
    _Atomic int *at = arg;
    atomic_fetch_add(at, 1);
}

/* Bytes go round a ring of streams that are late at random; only events order them. */
static void events_order(int seed)
{
    struct fake_cuda_settings set = fake_cuda_defaults();
    enum { STREAMS = 4, ROUNDS = 12 };
    void *s[STREAMS], *e[STREAMS];
    unsigned char *at[STREAMS], *host = NULL;
    int err = 0;

    set.delay_us = 200;
    set.seed = seed;
    fake_cuda_set(&set);
    struct zero_device *dev = opened(0);
    for (int i = 0; i < STREAMS; i++) {
        s[i] = stream_of(dev);
        e[i] = event_of(dev);
        at[i] = memory_of(dev, 64);
    }
    d->alloc(dev, 64 * (ROUNDS + 1), ZERO_MEM_PINNED, (void **)&host);
    memset(host, 'a', 64);
    memset(host + 64, 'x', 64 * ROUNDS);
    for (int i = 0; i < ROUNDS && !err; i++) {
        int to = i % STREAMS, from = (i + STREAMS - 1) % STREAMS;
        err = d->stream_wait(dev, s[to], e[from]); /* never recorded: no wait */
        if (!err)
            err = d->copy(dev, host + 64 * (i + 1), at[from], 64, s[to]);
        if (!err)
            err = d->copy(dev, at[to], host + 64 * i, 64, s[to]);
        if (!err)
            err = d->event_record(dev, e[to], s[to]);
    }
    for (int i = 0; i < STREAMS && !err; i++)
        err = d->stream_sync(dev, s[i], 10 * SECOND);
    /* Each round passes on what it finds, and leaves what the round before has passed on. */
    for (int i = 0; i <= ROUNDS && !err; i++)
        err = !all_are(host + 64 * i, 64, i % 2 ? 0 : 'a');
    ok(!err, "streams are ordered by events (seed %d)", seed);
    err = 0;
    for (int i = 0; i < STREAMS; i++) {
        err |= d->event_query(dev, e[i]);
        err |= d->event_destroy(dev, e[i]);
    }
    ok(!err, "which are all reached");
    closed(dev, "streams and events");
    fake_cuda_set(NULL);
}

static void waits(void)
{
    struct zero_device *dev = opened(0);
    void *s = stream_of(dev), *e = event_of(dev);
    _Atomic int ran = 0;
    int before = atomic_load(&notices);

    is_int(d->event_query(dev, e), 0, "an event that was never recorded holds nobody up");
    fake_cuda_hold(1);
    d->call(dev, adds, &ran, s);
    d->event_record(dev, e, s);
    is_int(d->event_query(dev, e), -EINPROGRESS, "one that is not reached");
    is_int(d->stream_sync(dev, s, SECOND / 50), -ETIMEDOUT, "a stream that does not end is left");
    has_str(zero_last_error(), "ZERO_TIMEOUT", "the sentence says so");
    is_int(atomic_load(&notices), before, "nobody is told yet");
    fake_cuda_hold(0);
    is_int(d->stream_sync(dev, s, 10 * SECOND), 0, "it ends");
    is_int(d->event_query(dev, e), 0, "the event is reached");
    is_int(atomic_load(&ran), 1, "the function has run");
    for (int i = 0; i < 10000 && atomic_load(&notices) == before; i++)
        usleep(1000);
    ok(atomic_load(&notices) > before, "it is told of");
    d->event_destroy(dev, e);
    closed(dev, "a stream that waited");
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static void kernels(void)
{
    enum { N = 1000, RUNS = 300 };
    struct zero_device *dev = opened(0);
    float *x = memory_of(dev, N * 4), host[N];
    uint16_t *h = memory_of(dev, N * 2), got[N];
    uint64_t first[RUNS], count[RUNS];
    void *s = stream_of(dev);
    int good = 1;

    for (int i = 0; i < N; i++)
        host[i] = (float)i / 7 - 50;
    for (uint64_t i = 0; i < RUNS; i++)
        first[i] = 3 * i, count[i] = i % 2;
    struct zero_cast_args cast = {h, x, N, ZERO_BF16, ZERO_F32};
    struct zero_fill_args fill = {h, ZERO_BF16, RUNS, first, count};
    int err = d->copy(dev, x, host, sizeof host, s);
    err = err ? err
              : d->launch(dev, &(struct zero_launch){ZERO_KERNEL_CAST, 0, &cast, sizeof cast}, s);
    err = err ? err
              : d->launch(dev, &(struct zero_launch){ZERO_KERNEL_FILL, 0, &fill, sizeof fill}, s);
    err = err ? err : d->copy(dev, got, h, sizeof got, s);
    err = err ? err : d->stream_sync(dev, s, 10 * SECOND);
    is_int(err, 0, "kernels run");
    for (int i = 0; i < N; i++)
        good &=
            got[i] == (i % 3 == 0 && i / 3 % 2 && i / 3 < RUNS ? 0 : zero_bf16_from_float(host[i]));
    ok(good, "a cast, and zeros in more runs than a launch takes");
    cast.count = 0;
    is_int(d->launch(dev, &(struct zero_launch){ZERO_KERNEL_CAST, 0, &cast, sizeof cast}, s), 0,
           "nothing to do is fine");
    ok(d->launch(dev, &(struct zero_launch){99, 0, &cast, sizeof cast}, s) < 0,
       "an unknown kernel is refused");
    closed(dev, "kernels");
}

/* ---- Sharing --------------------------------------------------------------------------------- */

static void shares_by_descriptor(void)
{
    struct zero_device *a = opened(0), *b = opened(0);
    unsigned char *p = memory_of(a, 10 * KIB), text[16] = "seen by both";
    struct zero_device_share share = {.size = sizeof share};
    void *q = NULL, *s = stream_of(a);

    d->copy(a, p, text, sizeof text, s);
    d->stream_sync(a, s, 10 * SECOND);
    is_int(d->share(a, p, &share), 0, "memory can be shared");
    ok(share.fd >= 0 && share.bytes >= 10 * KIB, "by a descriptor");
    is_int(d->attach(b, &share, &q), 0, "and attached");
    close(share.fd);
    ok(q != p && q, "at another address");
    memset(text, 0, sizeof text);
    void *t = stream_of(b);
    d->copy(b, text, q, sizeof text, t);
    d->stream_sync(b, t, 10 * SECOND);
    is_str((char *)text, "seen by both", "both see the same");
    d->grow(a, p, 10 * KIB, 300 * KIB);
    ok(d->share(a, p, &share) == -ENOTSUP, "what has grown is in pieces");
    ok(d->release(b, q, 1, ZERO_MEM_CUDA) == -EINVAL, "what is attached is not released");
    is_int(d->detach(b, q), 0, "but detached");
    d->close(b);
    closed(a, "sharing");
}

/* Another process: does the handle lead to that text? */
static int attach(const char *handle, const char *text)
{
    struct fake_cuda_settings set = fake_cuda_defaults();
    struct zero_device_share share = {.size = sizeof share, .how = 2, .fd = -1, .bytes = 4096};
    struct zero_device *dev;
    char got[16] = "";
    void *q = NULL, *s = NULL;

    set.has_virtual = 0;
    fake_cuda_set(&set);
    snprintf((char *)share.handle, sizeof share.handle, "%s", handle);
    int err = device_open(0, &dev);
    err = err ? err : d->attach(dev, &share, &q);
    err = err ? err : d->stream_create(dev, "child", &s);
    err = err ? err : d->copy(dev, got, q, sizeof got, s);
    err = err ? err : d->stream_sync(dev, s, 10 * SECOND);
    err = err ? err : d->detach(dev, q);
    err = err ? err : d->close(dev);
    if (err)
        diag("child: %s", zero_last_error());
    return err || strcmp(got, text) != 0;
}

static void shares_by_handle(void)
{
    struct fake_cuda_settings set = fake_cuda_defaults();
    struct zero_device_share share = {.size = sizeof share};
    int status = 1;

    set.has_virtual = 0;
    fake_cuda_set(&set);
    struct zero_device *dev = opened(0);
    unsigned char *p = memory_of(dev, 4096);
    void *s = stream_of(dev), *q = NULL;
    char text[16] = "from the parent";
    d->copy(dev, p, text, sizeof text, s);
    d->stream_sync(dev, s, 10 * SECOND);
    is_int(d->share(dev, p, &share), 0, "plain memory can be shared");
    ok(share.fd == -1 && d->attach(dev, &share, &q) < 0, "but not with oneself");
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "cuda_device", (const char *)share.handle, text, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    is_int(status, 0, "another process reads it");
    closed(dev, "sharing by a handle");
    fake_cuda_set(NULL);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

struct life {
    struct zero_device *dev;
    void *s, *e, *p, *pinned;
    int shared; /* -1: nothing */
    bool is_pinned;
};

#define LIFE_BYTES (100 * KIB)
static char life_page[4096] __attribute__((aligned(4096)));

static int life_lead(struct life *x)
{
    struct zero_device_info info = {.size = sizeof info};
    struct zero_device_share share = {.size = sizeof share, .fd = -1};
    static const uint64_t from[] = {0}, count[] = {10};
    struct zero_fill_args fill = {.dtype = ZERO_F32, .n = 1, .first = from, .count = count};
    struct zero_launch l = {ZERO_KERNEL_FILL, 0, &fill, sizeof fill};
    void *q;

    TRY(d->probe(zero__loader_host(loader), &info));
    TRY(device_open(0, &x->dev));
    TRY(d->info(x->dev, &info));
    TRY(d->stream_create(x->dev, "life", &x->s));
    TRY(d->event_create(x->dev, &x->e));
    TRY(d->alloc(x->dev, LIFE_BYTES, ZERO_MEM_CUDA, &x->p));
    TRY(d->alloc(x->dev, LIFE_BYTES, ZERO_MEM_PINNED, &x->pinned));
    TRY(d->pin(x->dev, life_page, sizeof life_page));
    x->is_pinned = true;
    TRY(d->copy(x->dev, x->p, x->pinned, LIFE_BYTES, x->s));
    fill.dst = x->p;
    TRY(d->launch(x->dev, &l, x->s));
    TRY(d->call(x->dev, adds, &notices, x->s));
    TRY(d->event_record(x->dev, x->e, x->s));
    TRY(d->stream_wait(x->dev, x->s, x->e));
    TRY(d->stream_sync(x->dev, x->s, 10 * SECOND));
    TRY(d->event_query(x->dev, x->e));
    TRY(d->share(x->dev, x->p, &share));
    x->shared = share.fd;
    TRY(d->attach(x->dev, &share, &q));
    TRY(d->detach(x->dev, q));
    return d->grow(x->dev, x->p, LIFE_BYTES, 100 * KIB);
}

static int first(int err, int later)
{
    return err ? err : later;
}

/* Whoever is told of one error goes on ending things, and keeps the first. */
static int life_end(struct life *x, int err)
{
    if (x->s && err) /* memory that is in use is not released; this call does not fail */
        d->stream_sync(x->dev, x->s, 10 * SECOND);
    if (x->shared >= 0)
        close(x->shared);
    if (x->is_pinned)
        err = first(err, d->unpin(x->dev, life_page, sizeof life_page));
    if (x->pinned)
        err = first(err, d->release(x->dev, x->pinned, LIFE_BYTES, ZERO_MEM_PINNED));
    if (x->p)
        err = first(err, d->release(x->dev, x->p, LIFE_BYTES, ZERO_MEM_CUDA));
    if (x->e)
        err = first(err, d->event_destroy(x->dev, x->e));
    if (x->s)
        err = first(err, d->stream_destroy(x->dev, x->s));
    return x->dev ? first(err, d->close(x->dev)) : err;
}

/* A life of a device; the first error, with what can be ended ended. */
static int life(void)
{
    struct life x = {.shared = -1};

    return life_end(&x, life_lead(&x));
}

/* Every call fails in turn. Calls whose failure harms nobody may go unnoticed: their names. */
static void each_fails(int result, const char *name, const char *harmless)
{
    uint32_t n = 0, unnamed = 0, unnoticed = 0, left = 0;

    for (n = 1; n < 1000; n++) {
        fake_cuda_set(NULL);
        fake_cuda_fail(n, result);
        zero__fail(0, SILENCE);
        int err = life();
        const char *failed = fake_cuda_failed();
        fake_cuda_fail(0, 0);
        if (!failed)
            break;
        if (!err && !strstr(harmless, failed)) {
            diag("%s failed as call %u, and nobody said so", failed, n);
            unnoticed++;
        }
        bool named = strstr(zero_last_error(), name) && !strstr(zero_last_error(), SILENCE);
        if (err && !named && !strstr(harmless, failed)) {
            diag("%s failed as call %u: %s", failed, n, zero_last_error());
            unnamed++;
        }
        if (!nothing_left()) {
            diag("%s failed as call %u", failed, n);
            left++;
        }
    }
    ok(n > 60 && n < 1000, "%u calls fail in turn, with %s", n - 1, name);
    is_int(unnoticed, 0, "each is an error");
    is_int(unnamed, 0, "that says what failed");
    is_int(left, 0, "and nothing is left");
    fake_cuda_set(NULL);
}

/*
 * Ends whose failure nobody can do anything about; what is tried once more; what is found out
 * otherwise.
 */
static const char harmless[] = "cuDevicePrimaryCtxRelease_v2 cuModuleUnload cuStreamDestroy_v2 "
                               "cuStreamQuery cuMemAddressReserve "
                               "cuMemCreate";

static void breaks(void)
{
    struct zero_device *dev = opened(0);
    float *x = memory_of(dev, 4096);
    void *s = stream_of(dev), *e = event_of(dev), *p = NULL;
    struct zero_cast_args cast = {x, x, 64, ZERO_F32, ZERO_F32};
    char first[ZERO_ERROR_BYTES];
    int err = 0;

    cast.dst = x + 512;
    fake_cuda_break(1, CUDA_ILLEGAL_ADDRESS);
    err = d->launch(dev, &(struct zero_launch){ZERO_KERNEL_CAST, 0, &cast, sizeof cast}, s);
    err = err ? err : d->event_record(dev, e, s);
    for (int i = 0; i < 10000 && (!err || err == -EINPROGRESS); i++) {
        err = d->event_query(dev, e);
        usleep(1000);
    }
    is_int(err, -EIO, "what a kernel spoilt is an error of its event");
    snprintf(first, sizeof first, "%s", zero_last_error());
    has_str(first, "CUDA_ERROR_ILLEGAL_ADDRESS", "by its name");
    has_str(first, "zero_cast_32_32", "with the last kernel");
    has_str(first, "context is lost", "and what it means");
    is_int(d->alloc(dev, 1, ZERO_MEM_CUDA, &p), -EIO, "everything later fails");
    is_str(zero_last_error(), first, "with the same sentence");
    is_int(d->copy(dev, x, x, 1, s), -EIO, "whatever it is");
    d->event_destroy(dev, e);
    is_int(d->close(dev), 0, "the device closes all the same");
    fake_cuda_set(NULL);
}

int main(int argc, char **argv)
{
    plugin_open();
    if (argc == 3)
        return attach(argv[1], argv[2]);
    describes();
    bad_machines();
    copies();
    grows();
    without_virtual_memory();
    too_little();
    for (int seed = 1; seed <= 3; seed++)
        events_order(seed);
    waits();
    kernels();
    shares_by_descriptor();
    shares_by_handle();
    each_fails(CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", harmless);
    each_fails(CUDA_OUT_OF_MEMORY, "", harmless);
    each_fails(CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", harmless);
    breaks();
    plugin_close();
    done();
}
