/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the device plugin cuda over a driver that the test brings: the plugin, devices. */
#ifndef ZERO_TESTS_UNIT_CUDA_OPEN_H
#define ZERO_TESTS_UNIT_CUDA_OPEN_H

#include "../tap.h"

#include <stdatomic.h>

#include <zero/zero.h>

#include "../../plugins/cuda/driver.h"
#include "../fake/cuda_left.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "plugin/loader.h"

#define KIB UINT64_C(1024)
#define SECOND INT64_C(1000000000)

static struct zero__options *options;
static struct zero__loader *loader;
static const struct zero_device_ops *d;
static atomic_int notices;
static int64_t patience = 10 * SECOND; /* of a device that is opened */

/* The plugin, its file as it is installed. */
static void plugin_open(void)
{
    static struct zero__log log;
    struct zero__plugin *plugin;
    char why[256];

    zero__log_levels(&log, "error", why, sizeof why);
    if (zero__options_load(NULL, 0, &options) ||
        zero__loader_create(options, &log, NULL, 0, &loader) ||
        zero__loader_load(loader, ZERO_IFACE_DEVICE, "cuda", &plugin)) {
        diag("%s", zero_last_error());
        bail("the plugin cannot be loaded");
    }
    d = zero__plugin_device(plugin);
}

static void plugin_close(void)
{
    zero__loader_free(loader);
    zero__options_free(options);
}

static void notify(void *arg)
{
    (void)arg;
    atomic_fetch_add(&notices, 1);
}

static int device_open(int index, struct zero_device **dev)
{
    struct zero_device_open p = {.size = sizeof p,
                                 .host = zero__loader_host(loader),
                                 .index = index,
                                 .threads = 1,
                                 .timeout_ns = patience,
                                 .notify = notify};

    return d->open(&p, dev);
}

static struct zero_device *opened(int index)
{
    struct zero_device *dev = NULL;

    if (device_open(index, &dev)) {
        diag("%s", zero_last_error());
        bail("the device cannot be opened");
    }
    return dev;
}

static void *memory_of(struct zero_device *dev, uint64_t bytes)
{
    void *p = NULL;

    if (d->alloc(dev, bytes, ZERO_MEM_CUDA, &p)) {
        diag("%s", zero_last_error());
        bail("no memory of the device");
    }
    return p;
}

static void *stream_of(struct zero_device *dev)
{
    void *s = NULL;

    if (d->stream_create(dev, "test", &s)) {
        diag("%s", zero_last_error());
        bail("no stream");
    }
    return s;
}

__attribute__((unused)) static void *event_of(struct zero_device *dev)
{
    void *e = NULL;

    if (d->event_create(dev, &e))
        bail("no event");
    return e;
}

/* Bytes that lie there are those of `value`. */
static bool all_are(const unsigned char *p, uint64_t n, unsigned char value)
{
    while (n && *p == value)
        p++, n--;
    return n == 0;
}

/* The same of memory of the device. */
__attribute__((unused)) static bool device_has(struct zero_device *dev, const void *p, uint64_t n,
                                               unsigned char value)
{
    unsigned char *host = malloc(n);
    void *stream = stream_of(dev);
    bool good = !d->copy(dev, host, p, n, stream) && !d->stream_sync(dev, stream, 10 * SECOND) &&
                all_are(host, n, value);

    d->stream_destroy(dev, stream);
    free(host);
    return good;
}

static void closed(struct zero_device *dev, const char *what)
{
    int err = d->close(dev);

    ok(err == 0 && nothing_left(), "%s: nothing is left", what);
}

#endif
