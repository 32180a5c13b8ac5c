/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a device, and what it is. */
#include "cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine/clock.h"

#define LOST_NS INT64_C(100000000)
#define LEAST_MAJOR 8 /* compute capability: bf16, and what the kernels are made for */

/* What the driver says of a device without a context. */
struct facts {
    int device, major, minor, multiprocessors, has_virtual, shares, has_rdma;
    int pci_domain, pci_bus, pci_device;
    size_t total;
    char name[96];
};

static int failed(const struct zero__voice *voice, const struct cuda_driver *d, int result,
                  int index)
{
    char text[CUDA_ERROR_TEXT];

    return zero__say(voice, zero__cuda_errno(result),
                     "GPU %d does not answer: %s; look at nvidia-smi", index,
                     zero__cuda_text(d, result, text));
}

static int facts_find(const struct zero__voice *voice, const struct cuda_driver *d, int index,
                      struct facts *f)
{
    const struct {
        int *value, attribute;
    } wanted[] = {
        {&f->major, CUDA_CAPABILITY_MAJOR},          {&f->minor, CUDA_CAPABILITY_MINOR},
        {&f->multiprocessors, CUDA_MULTIPROCESSORS}, {&f->has_virtual, CUDA_VIRTUAL_MEMORY},
        {&f->shares, CUDA_SHARES_BY_DESCRIPTOR},     {&f->has_rdma, CUDA_VIRTUAL_MEMORY_RDMA},
        {&f->pci_domain, CUDA_PCI_DOMAIN},           {&f->pci_bus, CUDA_PCI_BUS},
        {&f->pci_device, CUDA_PCI_DEVICE}};
    int result = d->device_get(&f->device, index);

    if (!result)
        result = d->device_name(f->name, sizeof f->name, f->device);
    if (!result)
        result = d->device_memory(&f->total, f->device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !result; i++)
        result = d->device_attribute(wanted[i].value, wanted[i].attribute, f->device);
    if (result)
        return failed(voice, d, result, index);
    if (f->major < LEAST_MAJOR)
        return zero__say(
            voice, -ENOTSUP,
            "GPU %d (%s) has compute capability %d.%d; %d.0 is the least: choose another "
            "one with ZERO_DEVICE=cuda:N or CUDA_VISIBLE_DEVICES",
            index, f->name, f->major, f->minor, LEAST_MAJOR);
    return 0;
}

static int context_failed(const struct zero__voice *voice, const struct cuda_driver *d, int result,
                          int index)
{
    char text[CUDA_ERROR_TEXT];
    const char *remedy =
        result == CUDA_DEVICE_UNAVAILABLE
            ? "another process has it for itself: end that, or set the compute mode "
              "to default (nvidia-smi -c 0)"
        : result == CUDA_OUT_OF_MEMORY
            ? "it has no memory left even for a context: nvidia-smi shows who has it"
            : "look at nvidia-smi";

    return zero__say(voice, zero__cuda_errno(result), "no context on GPU %d: %s: %s", index,
                     zero__cuda_text(d, result, text), remedy);
}

static void describe(const struct cuda_driver *d, const struct facts *f, int n, int index,
                     struct zero_device_info *info)
{
    char which[32], text[256];

    info->mem = ZERO_MEM_CUDA;
    for (uint32_t k = ZERO_KERNEL_FILL; k <= ZERO_KERNEL_UPDATES; k++)
        info->kernels |= 1u << k;
    info->memory_bytes = f->total;
    if (index < 0)
        snprintf(which, sizeof which, "%d GPU%s, the first", n, n == 1 ? "" : "s");
    else
        snprintf(which, sizeof which, "GPU %d", index);
    snprintf(text, sizeof text, "%s: %.64s (%d.%d); driver for CUDA %d.%d%s", which, f->name,
             f->major, f->minor, d->version / 1000, d->version % 1000 / 10,
             f->has_virtual ? "" : "; memory cannot grow");
    snprintf(info->note, sizeof info->note, "%.127s", text);
    if (index >= 0) /* a GPU is function 0 of its device */
        snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.0", f->pci_domain & 0xffffff,
                 f->pci_bus & 0xff, f->pci_device & 0xff);
}

static void info_give(struct zero_device_info *out, const struct zero_device_info *full)
{
    size_t bytes = out->size < sizeof *full ? out->size : sizeof *full;

    memcpy(out, full, bytes);
}

/* What is free is only said in a context. */
static int free_find(const struct zero__voice *voice, const struct cuda_driver *d, int device,
                     uint64_t *bytes)
{
    struct cuda_context *context;
    size_t left = 0, total = 0;
    int result = d->context_retain(&context, device);

    if (result)
        return context_failed(voice, d, result, 0);
    result = d->context_push(context);
    if (!result) {
        result = d->memory_info(&left, &total);
        d->context_pop(&context);
    }
    d->context_release(device);
    if (result)
        return failed(voice, d, result, 0);
    *bytes = left;
    return 0;
}

int zero__cuda_probe(const struct zero_host *host, struct zero_device_info *out)
{
    const struct zero__voice voice = {host, CUDA_NAME};
    struct zero_device_info info = {.size = out->size};
    struct cuda_driver d;
    struct facts f;
    int err = zero__cuda_driver_open(&voice, &d);

    if (!err)
        err = facts_find(&voice, &d, 0, &f);
    if (!err)
        err = free_find(&voice, &d, f.device, &info.free_bytes);
    if (err)
        return err;
    describe(&d, &f, d.n_devices, -1, &info);
    info_give(out, &info);
    return 0;
}

int zero__cuda_info(struct zero_device *dev, struct zero_device_info *out)
{
    struct zero_device_info info = {.size = out->size};
    struct facts f;
    size_t left = 0, total = 0;
    int err = facts_find(&dev->voice, &dev->driver, dev->index, &f);

    if (!err)
        err = zero__cuda_enter(dev);
    if (err)
        return err;
    err = zero__cuda_check(dev, dev->driver.memory_info(&left, &total), "asking for free memory");
    zero__cuda_leave(dev);
    if (err)
        return err;
    describe(&dev->driver, &f, dev->driver.n_devices, dev->index, &info);
    info.free_bytes = left;
    info.copied = atomic_load_explicit(&dev->copied, memory_order_relaxed);
    info_give(out, &info);
    return 0;
}

static int params_check(const struct zero__voice *voice, const struct zero_device_open *params,
                        const struct cuda_driver *d)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (params->size < sizeof *params)
        return zero__say(voice, -EINVAL, "parameters of %zu bytes: %zu are expected", params->size,
                         sizeof *params);
    if (params->timeout_ns <= 0)
        return zero__say(voice, -EINVAL, "timeout of %lld ns: it must be positive",
                         (long long)params->timeout_ns);
    if (params->index < 0 || params->index >= d->n_devices)
        return zero__say(voice, -ENODEV,
                         "there is no GPU %d: this process sees %d, from 0 on%s%s%s; a rank takes "
                         "that of its number on the host: %sstart as many ranks as GPUs, or let "
                         "all ranks share one with ZERO_DEVICE=cuda:0",
                         params->index, d->n_devices, visible ? " (CUDA_VISIBLE_DEVICES=" : "",
                         visible ? visible : "", visible ? ")" : "",
                         visible ? "each rank that sees one GPU of its own takes "
                                   "ZERO_DEVICE=cuda:0; else " : "");
    return 0;
}

/* What it has in its context, which is current; nothing uses it any more. */
static void unequip(struct zero_device *dev)
{
    const struct cuda_driver *d = &dev->driver;

    zero__cuda_memory_end(dev);
    for (uint32_t i = 0; i < dev->n_bells; i++) {
        if (dev->bells[i].own)
            d->stream_destroy(dev->bells[i].of);
        if (dev->bells[i].stream)
            d->stream_destroy(dev->bells[i].stream);
    }
    if (dev->own)
        d->stream_destroy(dev->own);
    if (dev->module)
        d->module_unload(dev->module);
}

/* With a context: what a device has besides. */
static int equip(struct zero_device *dev, const struct facts *f)
{
    const struct cuda_properties p = zero__cuda_chunk_properties(dev);
    size_t granularity = 0;
    int err = zero__cuda_enter(dev);

    if (err)
        return err;
    if (f->has_virtual)
        err = zero__cuda_check(
            dev, dev->driver.chunk_granularity(&granularity, &p, CUDA_GRANULARITY_RECOMMENDED),
            "asking for the granularity of memory");
    dev->granularity = granularity;
    dev->has_virtual = f->has_virtual && granularity;
    if (!err)
        err = zero__cuda_check(dev, dev->driver.stream_create(&dev->own, CUDA_STREAM_NON_BLOCKING),
                               "the device's own stream");
    if (!err)
        err = zero__cuda_check(dev, dev->driver.priorities(NULL, &dev->urgent),
                               "asking for the priorities of streams");
    if (!err)
        err = zero__cuda_kernels_load(dev);
    if (err)
        unequip(dev);
    zero__cuda_leave(dev);
    return err;
}

/*
 * What was enqueued has been called, or the last function returns just now. Of a context that is
 * lost the driver calls none any more (cuLaunchHostFunc()), but may be at one.
 */
static bool notices_await(struct zero_device *dev)
{
    const bool is_lost = atomic_load(&dev->is_broken);
    const int64_t until = zero__deadline_ns(is_lost ? LOST_NS : dev->timeout_ns);
    const struct timespec pause = {0, 1000000};

    while (atomic_load(&dev->n_ringing) && zero__now_ns() < until)
        nanosleep(&pause, NULL);
    return is_lost || !atomic_load(&dev->n_ringing);
}

static void device_free(struct zero_device *dev)
{
    dev->driver.context_release(dev->device);
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->notice);
    free(dev);
}

int zero__cuda_open(const struct zero_device_open *params, struct zero_device **out)
{
    const struct zero__voice voice = {params->host, CUDA_NAME};
    struct zero_device *dev = calloc(1, sizeof *dev);
    struct facts f;
    int err, result;

    if (!dev)
        return zero__say(&voice, -ENOMEM, "no memory for a device");
    dev->voice = voice;
    err = zero__cuda_driver_open(&voice, &dev->driver);
    if (!err)
        err = params_check(&voice, params, &dev->driver);
    if (!err)
        err = facts_find(&voice, &dev->driver, params->index, &f);
    if (err) {
        free(dev);
        return err;
    }
    result = dev->driver.context_retain(&dev->context, f.device);
    if (result) {
        err = context_failed(&voice, &dev->driver, result, params->index);
        free(dev);
        return err;
    }
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->notice, NULL);
    dev->index = params->index;
    dev->device = f.device;
    dev->total = f.total;
    dev->multiprocessors = (uint32_t)f.multiprocessors;
    dev->shares = f.shares;
    dev->has_rdma = f.has_rdma;
    dev->timeout_ns = params->timeout_ns;
    dev->notify = params->notify;
    dev->notify_arg = params->notify_arg;
    snprintf(dev->name, sizeof dev->name, "%s", f.name);
    err = equip(dev, &f);
    if (err) {
        device_free(dev);
        return err;
    }
    *out = dev;
    return 0;
}

int zero__cuda_close(struct zero_device *dev)
{
    int err, entered;

    if (!dev)
        return 0;
    pthread_mutex_lock(&dev->notice);
    dev->silent = true;
    pthread_mutex_unlock(&dev->notice);
    err = zero__cuda_enter_to_end(dev);
    entered = !err;
    if (!err)
        err = zero__cuda_streams_drain(dev, "closing the device");
    if ((!err || atomic_load(&dev->is_broken)) && !notices_await(dev))
        err = zero__say(&dev->voice, -ETIMEDOUT, "closing the device: a function of the host does "
                        "not end");
    if (err && !atomic_load(&dev->is_broken)) { /* in a context that is lost nothing runs */
        zero__tell(&dev->voice, ZERO_LOG_WARN,
                   "what GPU %d has to do does not end: its memory stays until the process ends",
                   dev->index);
        if (entered)
            zero__cuda_leave(dev);
        return err;
    }
    if (entered) {
        unequip(dev);
        zero__cuda_leave(dev);
    }
    device_free(dev);
    return 0;
}
