/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin nccl, all of it, for a device with ordinary memory: the fake library is told of the
 * device before the plugin sees it.
 */
#include <zero/comm.h>
#include <zero/device.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "../../../plugins/common/open.h"
#include "fake.h"
#undef zero_plugin_v1

int nccl_plugin_v1(const struct zero_host *host, const struct zero_plugin **plugin);
int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **plugin);

static const struct zero_comm_ops *real;
static struct zero_comm_ops ops;
static struct zero_iface iface;
static struct zero_plugin plugin;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int hosted_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    const struct zero_host *host = params->host;
    const char *path = host->param(host->ctx, "nccl", "cuda_library", "libcuda.so.1", "");
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct fake_api *fake = file ? dlsym(file, "fake_nccl_api") : NULL;
    const struct zero_device_ops *device;
    struct zero_device *dev;

    device = zero__open_device(params, &dev);
    if (fake && device)
        fake->use(device, dev, params->oob->rank);
    if (file)
        dlclose(file);
    return real->open(params, ctx);
}

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host, const struct zero_plugin **out)
{
    const struct zero_plugin *p;
    int err = nccl_plugin_v1(host, &p);

    pthread_mutex_lock(&lock);
    if (!err && !real) {
        real = p->ifaces->ops;
        ops = *real;
        ops.open = hosted_open;
        iface = *p->ifaces;
        iface.ops = &ops;
        plugin = *p;
        plugin.ifaces = &iface;
    }
    pthread_mutex_unlock(&lock);
    *out = &plugin;
    return err;
}
