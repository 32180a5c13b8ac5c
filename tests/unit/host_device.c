/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device: order on a stream, order between streams, progress with one worker, flags,
 * deadlines, full streams, and closing with work pending.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/status.h"
#include "device/host.h"

#define SECOND INT64_C(1000000000)
#define LONG (30 * SECOND)

static const struct zero_device_ops *ops;
static atomic_int notified;

static void notify(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static struct zero_device *open_device(uint32_t threads, int64_t timeout_ns)
{
    struct zero_device_open params = {.size = sizeof params,
                                      .threads = threads,
                                      .timeout_ns = timeout_ns,
                                      .notify = notify,
                                      .notify_arg = &notified};
    struct zero_device *dev;

    if (ops->open(&params, &dev))
        bail(zero__error_text());
    return dev;
}

static void *new_stream(struct zero_device *dev, const char *name)
{
    void *s;
    if (ops->stream_create(dev, name, &s))
        bail(zero__error_text());
    return s;
}

static void *new_event(struct zero_device *dev)
{
    void *e;
    if (ops->event_create(dev, &e))
        bail(zero__error_text());
    return e;
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* A gate that a stream waits at until the test opens it. */
struct gate {
    uint64_t flag;
};

static int close_gate(struct zero_device *dev, struct gate *g, void *stream)
{
    g->flag = 0;
    return ops->wait_value(dev, stream, &g->flag, 1);
}

static void open_gate(struct gate *g)
{
    __atomic_store_n(&g->flag, 1, __ATOMIC_RELEASE);
}

struct append {
    int *list, *n, value;
};

static void append(void *arg)
{
    struct append *a = arg;
    a->list[(*a->n)++] = a->value;
}

static void opening(void)
{
    struct zero_device_info info = {.size = sizeof info};
    struct zero_device_open params = {.size = sizeof params, .threads = 0, .timeout_ns = SECOND};
    struct zero_device *dev = NULL;
    unsigned char *p = NULL;
    void *q = NULL;
    bool zero = true;

    is_int(ops->open(&params, &dev), -EINVAL, "no threads, no device");
    has_str(zero__error_text(), "0 threads", "and the sentence says so");
    params.threads = 1;
    params.index = 3;
    is_int(ops->open(&params, &dev), -ENODEV, "there is one host device");
    dev = open_device(3, SECOND);
    is_int(ops->info(dev, &info), 0, "info");
    is_int(info.threads, 3, "tells the size of the pool");
    is_int(info.kernels, 0x1ff, "and all kernels");
    ok(info.memory_bytes >= info.free_bytes && info.free_bytes > 0, "and the memory");

    is_int(ops->alloc(dev, 5000001, ZERO_MEM_HOST, (void **)&p), 0, "memory");
    for (int i = 0; i < 5000001; i++)
        zero &= p[i] == 0;
    ok(zero && (uintptr_t)p % 4096 == 0, "is zeroed and aligned");
    is_int(ops->release(dev, p, 5000001, ZERO_MEM_HOST), 0, "and given back");
    is_int(ops->alloc(dev, UINT64_C(1) << 62, ZERO_MEM_PINNED, &q), -ENOMEM, "too much is ENOMEM");
    is_int(ops->alloc(dev, UINT64_MAX, ZERO_MEM_PINNED, &q), -ENOMEM, "absurdly much too");
    is_int(ops->alloc(dev, 1, ZERO_MEM_CUDA, &q), -EINVAL, "and it has no CUDA memory");
    ok(q == NULL, "a failure sets no pointer");
    is_int(ops->close(dev), 0, "close");
}

/* Every stream is in order, whatever the number of workers. */
static void fifo(uint32_t threads)
{
    enum { N = 2000, STREAMS = 3 };
    static int list[STREAMS][N], n[STREAMS];
    static struct append args[STREAMS][N];
    struct zero_device *dev = open_device(threads, LONG);
    void *s[STREAMS];
    bool good = true;

    for (int j = 0; j < STREAMS; j++) {
        n[j] = 0;
        s[j] = new_stream(dev, "order");
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < STREAMS; j++) {
            args[j][i] = (struct append){list[j], &n[j], i};
            good &= ops->call(dev, append, &args[j][i], s[j]) == 0;
        }
    for (int j = 0; j < STREAMS; j++) {
        good &= ops->stream_sync(dev, s[j], LONG) == 0 && n[j] == N;
        for (int i = 0; i < N; i++)
            good &= list[j][i] == i;
    }
    ok(good, "streams are in order with %u workers", threads);
    ops->close(dev);
}

/* b waits for a, which waits at a gate; c goes on meanwhile, even with one worker. */
static void events(void)
{
    struct zero_device *dev = open_device(1, LONG);
    void *a = new_stream(dev, "a"), *b = new_stream(dev, "b"), *c = new_stream(dev, "c");
    void *e = new_event(dev), *late = new_event(dev);
    struct gate g;
    int list[4] = {0}, n = 0, before;
    struct append first = {list, &n, 1}, second = {list, &n, 2}, third = {list, &n, 3};

    is_int(ops->event_query(dev, e), 0, "an event never recorded is reached");
    close_gate(dev, &g, a);
    ops->call(dev, append, &second, a);
    ops->event_record(dev, e, a);
    is_int(ops->event_query(dev, e), -EINPROGRESS, "a recorded one is not");
    ops->stream_wait(dev, b, e);
    ops->call(dev, append, &third, b);
    ops->event_record(dev, late, b);
    ops->call(dev, append, &first, c);
    is_int(ops->stream_sync(dev, c, LONG), 0, "a third stream goes on");
    is_int(n, 1, "while two wait");
    is_int(ops->stream_sync(dev, b, SECOND / 50), -ETIMEDOUT, "waiting has a deadline");
    has_str(zero__error_text(), "stream b", "and names the stream");
    is_int(ops->stream_destroy(dev, b), -EBUSY, "a stream with work cannot be destroyed");
    before = atomic_load(&notified);
    open_gate(&g);
    is_int(ops->stream_sync(dev, b, LONG), 0, "the gate lets both through");
    ok(list[0] == 1 && list[1] == 2 && list[2] == 3, "in the order of the event");
    is_int(ops->event_query(dev, late), 0, "the last event is reached");
    for (int i = 0; i < 1000 && atomic_load(&notified) == before; i++)
        nap(1);
    ok(atomic_load(&notified) > before, "and notify was called");
    is_int(ops->stream_destroy(dev, b), 0, "an idle stream can be destroyed");
    ops->event_destroy(dev, late);
    ops->close(dev);
}

/* A wait keeps to the record before it; a query asks for the last one. */
static void recorded_again(void)
{
    struct zero_device *dev = open_device(1, LONG);
    void *a = new_stream(dev, "a"), *b = new_stream(dev, "b"), *c = new_stream(dev, "c");
    void *e = new_event(dev), *f = new_event(dev);
    struct gate g, h;
    int list[2] = {0}, n = 0;
    struct append one = {list, &n, 1};

    close_gate(dev, &g, a);
    close_gate(dev, &h, b);
    ops->event_record(dev, e, a);
    ops->stream_wait(dev, c, e);
    ops->call(dev, append, &one, c);
    ops->event_record(dev, e, b);
    open_gate(&h);
    is_int(ops->stream_sync(dev, b, LONG), 0, "the second record is reached");
    is_int(ops->event_query(dev, e), 0, "as the query says");
    ops->event_destroy(dev, e); /* though the first record is pending */
    ops->event_record(dev, f, c);
    nap(5);
    is_int(ops->event_query(dev, f), -EINPROGRESS, "the wait still is for the first");
    open_gate(&g);
    is_int(ops->stream_sync(dev, c, LONG), 0, "which comes");
    is_int(n, 1, "at last");
    ops->close(dev);
}

static void flags(void)
{
    struct zero_device *dev = open_device(1, SECOND / 5);
    void *a = new_stream(dev, "a"), *b = new_stream(dev, "b"), *c = new_stream(dev, "c");
    void *e = new_event(dev), *good = new_event(dev);
    uint64_t flag = 0, never = 0;
    int list[4] = {0}, n = 0;
    struct append one = {list, &n, 1}, two = {list, &n, 2};

    ops->wait_value(dev, a, &flag, 5);
    ops->call(dev, append, &two, a);
    __atomic_store_n(&flag, 4, __ATOMIC_RELEASE);
    ops->call(dev, append, &one, b);
    is_int(ops->stream_sync(dev, b, LONG), 0, "another stream goes on while a flag is too small");
    __atomic_store_n(&flag, 6, __ATOMIC_RELEASE);
    is_int(ops->stream_sync(dev, a, LONG), 0, "a stream waits until it is large enough");
    ok(n == 2 && list[0] == 1 && list[1] == 2, "and not longer");

    ops->wait_value(dev, a, &never, 1);
    ops->call(dev, append, &one, a);
    ops->event_record(dev, e, a);
    ops->stream_wait(dev, b, e);
    ops->call(dev, append, &two, b);
    is_int(ops->stream_sync(dev, b, LONG), -ETIMEDOUT, "a flag never written fails its stream");
    is_int(ops->event_query(dev, e), -ETIMEDOUT, "and the event after it");
    is_int(n, 2, "and nothing ran on either stream");
    ops->event_record(dev, good, c);
    ops->call(dev, append, &one, c);
    is_int(ops->stream_sync(dev, c, LONG), 0, "an independent stream is well");
    is_int(ops->event_query(dev, good), 0, "and its events");
    is_int(ops->wait_value(dev, c, (uint64_t *)((char *)&flag + 1), 1), -EINVAL,
           "a flag has to be aligned");
    ops->close(dev);
}

/* Holds up a stream longer than the device's timeout, which would end a wait for a flag. */
static void hold(void *flag)
{
    while (!atomic_load((atomic_bool *)flag))
        nap(1);
}

static void full(void)
{
    struct zero_device *dev = open_device(1, SECOND / 10);
    void *a = new_stream(dev, "a");
    atomic_bool go = false;
    static int list[8192];
    int n = 0, err = 0, pushed = 0;
    struct append one = {list, &n, 1};

    ops->call(dev, hold, &go, a);
    while (pushed < 8192 && !(err = ops->call(dev, append, &one, a)))
        pushed++;
    is_int(err, -ETIMEDOUT, "a stream that takes no more is an error in the end");
    is_int(pushed, 4095, "after 4096 operations");
    has_str(zero__error_text(), "stream a is full", "and the sentence says so");
    atomic_store(&go, true);
    is_int(ops->stream_sync(dev, a, LONG), 0, "what it took is done");
    is_int(n, 4095, "all of it");
    ops->close(dev);

    dev = open_device(2, LONG);
    a = new_stream(dev, "a");
    for (n = err = pushed = 0; pushed < 8192 * 3 && !err; pushed++) {
        if (pushed % 8192 == 0)
            err = ops->stream_sync(dev, a, LONG), n = 0;
        err = err ? err : ops->call(dev, append, &one, a);
    }
    is_int(err, 0, "a stream that moves makes the caller wait");
    is_int(ops->stream_sync(dev, a, LONG), 0, "and all is done");
    is_int(n, 8192, "once");
    ops->close(dev);
}

static void drop(void)
{
    struct zero_device *dev = open_device(2, LONG);
    void *a = new_stream(dev, "a"), *b = new_stream(dev, "b"), *e = new_event(dev);
    uint64_t never = 0;
    static char from[1 << 20], to[1 << 20];

    ops->wait_value(dev, a, &never, 1);
    ops->event_record(dev, e, a);
    ops->stream_wait(dev, b, e);
    for (int i = 0; i < 100; i++)
        ops->copy(dev, to, from, sizeof to, b);
    is_int(ops->close(dev), 0, "closing drops what waits");
}

enum { ELEMENTS = 300007, BLOCKS = ELEMENTS / 4096 + 1 };

struct trained { /* each in pages of its own */
    _Alignas(4096) struct zero_scalars scalars;
    _Alignas(4096) float p[ELEMENTS], m[ELEMENTS], v[ELEMENTS], acc[ELEMENTS];
    _Alignas(4096) uint16_t grad[ELEMENTS], out[ELEMENTS];
    _Alignas(4096) double partial[BLOCKS];
};

static void train(struct zero_device *dev, struct trained *t)
{
    void *a = new_stream(dev, "a"), *b = new_stream(dev, "b"), *e = new_event(dev);
    struct zero_sumsq_args sumsq = {
        .partial = t->partial, .x = t->acc, .count = ELEMENTS, .dtype = ZERO_F32};
    struct zero_scalars_args step = {
        .scalars = &t->scalars, .sums = t->partial, .ranks = BLOCKS, .inverse = 1, .clip = 1};
    struct zero_update_args update = {
        .p = t->p,
        .m = t->m,
        .v = t->v,
        .grad = t->acc,
        .out = t->out,
        .count = ELEMENTS,
        .grad_dtype = ZERO_F32,
        .out_dtype = ZERO_BF16,
        .scalars = &t->scalars,
        .hyper = {.lr = 1e-2f, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f}};
    for (uint32_t i = 0; i < 6; i++) {
        struct zero_accumulate_args add = {
            .acc = t->acc, .x = t->grad, .count = ELEMENTS, .x_dtype = ZERO_BF16,
            .beta = i % 3 != 0};
        struct zero_cast_args cast = {
            .dst = t->grad, .x = t->p, .count = ELEMENTS, .dst_dtype = ZERO_BF16,
            .x_dtype = ZERO_F32};
        ops->stream_wait(dev, a, e);
        ops->launch(dev, &(struct zero_launch){ZERO_KERNEL_ACCUMULATE, 0, &add, sizeof add}, a);
        ops->launch(dev, &(struct zero_launch){ZERO_KERNEL_SUMSQ, 0, &sumsq, sizeof sumsq}, a);
        ops->launch(dev, &(struct zero_launch){ZERO_KERNEL_SCALARS, 0, &step, sizeof step}, a);
        ops->launch(dev, &(struct zero_launch){ZERO_KERNEL_ADAMW, 0, &update, sizeof update}, a);
        ops->event_record(dev, e, a);
        ops->stream_wait(dev, b, e);
        ops->launch(dev, &(struct zero_launch){ZERO_KERNEL_CAST, 0, &cast, sizeof cast}, b);
        ops->copy(dev, t->acc, t->p, sizeof t->p, b);
        ops->event_record(dev, e, b);
    }
    if (ops->stream_sync(dev, b, LONG))
        bail(zero__error_text());
}

/* The same launches with any number of workers give the same bits. */
static uint64_t hash_of(uint32_t threads)
{
    struct zero_device *dev = open_device(threads, LONG);
    uint64_t hash = 1469598103934665603u;
    struct trained *t;

    if (ops->alloc(dev, sizeof *t, ZERO_MEM_HOST, (void **)&t))
        bail(zero__error_text());
    for (int i = 0; i < ELEMENTS; i++) {
        t->grad[i] = zero_bf16_from_float((float)((i * 37) % 1001 - 500) * 0.01f);
        t->p[i] = (float)(i % 97) * 0.013f;
    }
    t->scalars.loss_scale = 1;
    train(dev, t);
    for (int i = 0; i < ELEMENTS; i++)
        hash = (hash ^ zero_bits_of_float(t->p[i]) ^ ((uint64_t)t->out[i] << 32) ^
                ((uint64_t)zero_bits_of_float(t->v[i]) << 16)) *
               1099511628211u;
    hash ^= t->scalars.step == 6 ? 0 : 1;
    ops->release(dev, t, sizeof *t, ZERO_MEM_HOST);
    ops->close(dev);
    return hash;
}

int main(void)
{
    const struct zero_iface *iface = zero__host_device_plugin.ifaces;
    uint64_t hash;

    ops = iface->ops;
    is_int(iface->kind, ZERO_IFACE_DEVICE, "the plugin offers a device");
    opening();
    for (uint32_t threads = 1; threads <= 4; threads++)
        fifo(threads);
    events();
    recorded_again();
    flags();
    full();
    drop();
    hash = hash_of(1);
    for (uint32_t threads = 2; threads <= 4; threads++)
        ok(hash_of(threads) == hash, "%u workers give the bits of one", threads);
    done();
}
