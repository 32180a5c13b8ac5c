/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls, what a test asks for, and what is noted for it. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define MOST_PUSHED 8
#define MOST_CONTEXTS 4096
#define MOST_NAMES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st *contexts[MOST_CONTEXTS];
static int n_contexts;
static atomic_int n_live, n_misused;
static char last_misuse[400];
static _Thread_local struct CUctx_st *opening, *pushed[MOST_PUSHED];
static _Thread_local int n_pushed;
static struct {
    int rank, result;
    char name[32];
    unsigned k, seen;
    bool later, lasts;
    atomic_bool done;
} failure;
static struct {
    char name[32];
    unsigned any, n[FAKE_RANKS]; /* any: on a rank that is not known, so on each */
} counted[MOST_NAMES];

/* ---- For tests ------------------------------------------------------------------------------- */

void fake_misuse(const char *fmt, ...)
{
    va_list ap;

    pthread_mutex_lock(&lock);
    va_start(ap, fmt);
    vsnprintf(last_misuse, sizeof last_misuse, fmt, ap);
    va_end(ap);
    pthread_mutex_unlock(&lock);
    fprintf(stderr, "fake NCCL: %s\n", last_misuse);
    atomic_fetch_add(&n_misused, 1);
}

void fake_count(int n)
{
    atomic_fetch_add(&n_live, n);
}

static void use(const struct zero_device_ops *ops, struct zero_device *dev, int rank)
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

static void fail_any(int rank, const char *name, unsigned k, int result, bool later, bool lasts)
{
    pthread_mutex_lock(&lock);
    snprintf(failure.name, sizeof failure.name, "%s", name);
    failure.rank = rank;
    failure.k = k;
    failure.seen = 0;
    failure.result = result;
    failure.later = later;
    failure.lasts = lasts;
    memset(counted, 0, sizeof counted);
    atomic_store(&failure.done, false);
    pthread_mutex_unlock(&lock);
}

static void fail(int rank, const char *name, unsigned k, int result, bool later)
{
    fail_any(rank, name, k, result, later, false);
}

static void fail_from(int rank, const char *name, unsigned k, int result)
{
    fail_any(rank, name, k, result, false, true);
}

static bool has_failed(void)
{
    return atomic_load(&failure.done);
}

/* Where calls of that name are counted; the lock is held. */
static int place(const char *name)
{
    int i = 0;

    while (i < MOST_NAMES - 1 && *counted[i].name && strcmp(counted[i].name, name) != 0)
        i++;
    return i;
}

static unsigned calls(int rank, const char *name)
{
    pthread_mutex_lock(&lock);
    int i = place(name);
    unsigned n = counted[i].any + counted[i].n[rank];
    pthread_mutex_unlock(&lock);
    return n;
}

static int live(void)
{
    return atomic_load(&n_live);
}

static int misused(char *text, size_t bytes)
{
    pthread_mutex_lock(&lock);
    snprintf(text, bytes, "%s", last_misuse);
    pthread_mutex_unlock(&lock);
    return atomic_exchange(&n_misused, 0);
}

FAKE_EXPORT const struct fake_api fake_nccl_api = {use,   fail, fail_from, has_failed,
                                                  calls, live, misused};

/* Of a device's rank, or of any: NULL. */
static int call_of(const char *name, const struct CUctx_st *c, bool *later)
{
    int result = 0;

    *later = false;
    pthread_mutex_lock(&lock);
    int i = place(name);
    snprintf(counted[i].name, sizeof counted[i].name, "%s", name);
    ++*(c ? &counted[i].n[c->rank] : &counted[i].any);
    if (failure.k && (!c || c->rank == failure.rank) && strcmp(name, failure.name) == 0 &&
        (++failure.seen == failure.k || (failure.lasts && failure.seen > failure.k))) {
        result = failure.result;
        *later = failure.later;
        atomic_store(&failure.done, true);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int fake_call(const char *name, nccl_comm comm, bool *later)
{
    return call_of(name, comm ? fake_comm_context(comm) : n_pushed ? fake_current() : opening,
                   later);
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
    int r = call_of("cuCtxPushCurrent", context, &later);

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
    atomic_fetch_sub(&contexts[device]->retained, 1);
    fake_count(-1);
    return driver("cuDevicePrimaryCtxRelease");
}
