/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls, and contexts of a device with ordinary memory. */
#include <pthread.h>
#include <stdlib.h>

#include "inside.h"

#define MOST_PUSHED 8
#define MOST_CONTEXTS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st *contexts[MOST_CONTEXTS];
static int n_contexts;
static _Thread_local struct CUctx_st *opening, *pushed[MOST_PUSHED];
static _Thread_local int n_pushed;

void fake_use(const struct zero_device_ops *ops, struct zero_device *dev, int rank)
{
    struct CUctx_st *c = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_contexts && !c; i++) /* as a GPU has one for good */
        if (!atomic_load(&contexts[i]->retained))
            c = contexts[i];
    if (!c && n_contexts < MOST_CONTEXTS && (c = calloc(1, sizeof *c))) {
        c->number = n_contexts;
        contexts[n_contexts++] = c;
    }
    if (c) {
        c->ops = ops;
        c->dev = dev;
        c->rank = rank;
        atomic_fetch_add(&c->retained, 1); /* until it is opened: nobody else's */
    }
    pthread_mutex_unlock(&lock);
    opening = c;
}

struct CUctx_st *fake_here(void)
{
    return n_pushed ? fake_current() : opening;
}

/* ---- What is put on streams ------------------------------------------------------------------ */

int fake_put(nccl_comm c, struct fake_op *op)
{
    const struct zero_device_ops *ops = c->device->ops;
    int err = ops->call(c->device->dev, fake_arrive, op, op->stream);

    return err ? err : ops->wait_value(c->device->dev, op->stream, &c->done, op->number);
}

void *fake_reach(nccl_comm c, const void *p, size_t bytes)
{
    (void)c, (void)bytes;
    return (void *)(uintptr_t)p;
}

/* ---- The driver ------------------------------------------------------------------------------ */

static int driver(const char *name)
{
    bool later;
    return fake_call(name, NULL, &later);
}

struct CUctx_st *fake_current(void)
{
    return n_pushed ? pushed[n_pushed - 1] : NULL;
}

FAKE_EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return driver("cuInit");
}

FAKE_EXPORT int cuDeviceGetCount(int *count)
{
    const char *n = getenv("FAKE_CUDA_DEVICES");

    *count = n ? atoi(n) : 2;
    return driver("cuDeviceGetCount");
}

FAKE_EXPORT int cuGetErrorString(int result, const char **text)
{
    *text = result == CUDA_NO_DEVICE ? "no CUDA-capable device is detected" : "a CUDA error";
    return CUDA_OK;
}

FAKE_EXPORT int cuStreamGetCtx(cuda_stream stream, cuda_context *context)
{
    (void)stream;
    *context = opening;
    return opening ? driver("cuStreamGetCtx") : CUDA_NO_DEVICE;
}

FAKE_EXPORT int cuCtxPushCurrent_v2(cuda_context context)
{
    bool later;
    int r = fake_call_of("cuCtxPushCurrent", context, &later);

    if (r != CUDA_OK)
        return r;
    if (n_pushed == MOST_PUSHED) {
        fake_misuse("contexts are pushed and never popped");
        return 1;
    }
    pushed[n_pushed++] = context;
    return CUDA_OK;
}

FAKE_EXPORT int cuCtxPopCurrent_v2(cuda_context *context)
{
    if (!n_pushed) {
        fake_misuse("a context is popped that nobody pushed");
        return 1;
    }
    int r = driver("cuCtxPopCurrent");
    *context = pushed[--n_pushed];
    return r;
}

FAKE_EXPORT int cuCtxGetDevice(int *device)
{
    int r = driver("cuCtxGetDevice");

    *device = fake_current() ? fake_current()->number : -1;
    return r;
}

FAKE_EXPORT int cuDevicePrimaryCtxRetain(cuda_context *context, int device)
{
    int r = driver("cuDevicePrimaryCtxRetain");

    if (r != CUDA_OK)
        return r;
    *context = contexts[device]; /* use() has counted it */
    fake_count(1);
    return CUDA_OK;
}

FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    int r = driver("cuDevicePrimaryCtxRelease");

    atomic_fetch_sub(&contexts[device]->retained, 1); /* another rank's from here on */
    fake_count(-1);
    return r;
}
