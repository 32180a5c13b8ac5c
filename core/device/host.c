/* SPDX-License-Identifier: Apache-2.0 */
/* The host device as a plugin: its table, and opening and closing a device. */
#include "config.h"

#include "device/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/host_race.h"
#include "device/host_types.h"
#include "machine/thread.h"

#define MAX_THREADS 4096u

static int fill_info(struct zero_device_info *out, const struct zero_device *dev)
{
    struct zero_device_info info = {.size = out->size};
    const struct zero__loops *loops = dev ? dev->loops : zero__loops(ZERO__ISA_AUTO);

    if (out->size < sizeof out->size)
        return zero__fail(-EINVAL, "host device: info of %zu bytes: set its size", out->size);
    host_memory_info(&info);
    for (uint32_t k = ZERO_KERNEL_FILL; k <= ZERO_KERNEL_SUM; k++)
        info.kernels |= 1u << k;
    info.threads = dev ? dev->n_threads : 0;
    info.copied = dev ? dev->copied : 0;
    snprintf(info.note, sizeof info.note, "kernels for %s", loops->name);
    memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
    return 0;
}

static int host_probe(const struct zero_host *host, struct zero_device_info *info)
{
    (void)host;
    return fill_info(info, NULL);
}

static int host_info(struct zero_device *dev, struct zero_device_info *info)
{
    return fill_info(info, dev);
}

static int choose_loops(const struct zero_host *host, const struct zero__loops **loops)
{
    const char *name = "auto";
    enum zero__isa isa;

    if (host && host->param)
        name = host->param(host->ctx, "host", "isa", name,
                           "instruction set of the host kernels: auto, avx512, avx2, scalar");
    if (!zero__isa_parse(name, &isa))
        return zero__fail(-EINVAL, "ZERO_ISA is %s: give auto, avx512, avx2 or scalar", name);
    if (!(*loops = zero__loops(isa)))
        return zero__fail(-ENOTSUP, "ZERO_ISA is %s, but this CPU goes up to %s: use auto", name,
                          zero__isa_name(zero__isa_best()));
    return 0;
}

static void init_sync(struct zero_device *dev)
{
    pthread_mutex_init(&dev->lock, NULL);
    zero__cond_init(&dev->work);
    zero__cond_init(&dev->timer);
    zero__cond_init(&dev->done);
}

static void free_device(struct zero_device *dev)
{
    while (dev->streams) {
        struct host_stream *s = dev->streams;
        dev->streams = s->next;
        free(s->ring);
        free(s);
    }
    while (dev->events)
        host_event_free(dev, dev->events);
    race_destroy(dev->race);
    pthread_cond_destroy(&dev->work);
    pthread_cond_destroy(&dev->timer);
    pthread_cond_destroy(&dev->done);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

static int check_params(const struct zero_device_open *params)
{
    if (params->size < sizeof *params)
        return zero__fail(-EINVAL, "host device: parameters of %zu bytes: %zu are expected",
                          params->size, sizeof *params);
    if (params->index != 0)
        return zero__fail(-ENODEV, "host device %d: there is only number 0", params->index);
    if (params->threads < 1 || params->threads > MAX_THREADS)
        return zero__fail(-EINVAL, "host device: %u threads: 1 to %u are possible", params->threads,
                          MAX_THREADS);
    if (params->timeout_ns <= 0)
        return zero__fail(-EINVAL, "host device: timeout of %lld ns: it must be positive",
                          (long long)params->timeout_ns);
    return 0;
}

static int host_open(const struct zero_device_open *params, struct zero_device **out)
{
    struct zero_device *dev;
    int err = check_params(params);

    if (err)
        return err;
    dev = calloc(1, sizeof *dev);
    if (!dev)
        return zero__fail(-ENOMEM, "host device: no memory for the device");
    init_sync(dev);
    dev->timeout_ns = params->timeout_ns;
    dev->notify = params->notify;
    dev->notify_arg = params->notify_arg;
    if ((err = choose_loops(params->host, &dev->loops)) ||
        (err = host_pool_start(dev, params->threads))) {
        free_device(dev);
        return err;
    }
    *out = dev;
    return 0;
}

void zero__host_device_stop(struct zero_device *dev)
{
    host_pool_stop(dev);
}

static int host_close(struct zero_device *dev)
{
    if (!dev)
        return 0;
    host_pool_stop(dev);
    free_device(dev);
    return 0;
}

const struct zero_device_ops zero__host_device_ops = {
    .size = sizeof(struct zero_device_ops),
    .probe = host_probe,
    .open = host_open,
    .close = host_close,
    .info = host_info,
    .alloc = host_alloc,
    .release = host_release,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_sync = host_stream_sync,
    .stream_wait = host_stream_wait,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .event_query = host_event_query,
    .copy = host_copy,
    .launch = host_launch,
    .call = host_call,
    .wait_value = host_wait_value,
    .touch = host_touch,
};

static const struct zero_iface ifaces[] = {
    {
        .kind = ZERO_IFACE_DEVICE,
        .major = ZERO_DEVICE_MAJOR,
        .minor = ZERO_DEVICE_MINOR,
        .ops = &zero__host_device_ops,
    },
};

const struct zero_plugin zero__host_device_plugin = {
    .size = sizeof(struct zero_plugin),
    .name = "host",
    .version = PACKAGE_VERSION,
    .build = "built in",
    .ifaces = ifaces,
    .n_ifaces = 1,
};
