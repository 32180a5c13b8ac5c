/* SPDX-License-Identifier: Apache-2.0 */
/* Of the fake driver: what tests set and ask, errors, devices, contexts, modules. */
#include "config.h"

#include "cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_grid.h"
#include "cuda_inside.h"

#define MOST_PUSHED 8
#define FATBIN 0xba55ed50u /* how a module for several devices begins */

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static __thread struct {
    struct cuda_context *context[MOST_PUSHED];
    uint32_t n;
} pushed;

/* CU_STREAM_CAPTURE_MODE_…, of this thread. */
enum { GLOBAL, THREAD_LOCAL, RELAXED };
static __thread int mode;

/* Calls by symbol. */
static const char *const symbols[] = {
#define NAME(member, symbol, parameters) #symbol,
    ZERO__CUDA_CALLS(NAME)
#undef NAME
};
#define N_SYMBOLS (sizeof symbols / sizeof *symbols)
static uint64_t called[N_SYMBOLS];

/* ---- What tests set and ask ------------------------------------------------------------------ */

FAKE_API struct fake_cuda_settings fake_cuda_defaults(void)
{
    return (struct fake_cuda_settings){.version = 13000,
                                       .devices = 2,
                                       .capability = 90,
                                       .has_virtual = 1,
                                       .shares = 1,
                                       .multiprocessors = 4,
                                       .memory_mib = 256,
                                       .first_bus = 0x10,
                                       .seed = 1};
}

/* Lock held. */
static void settings_from_environment(void)
{
    struct fake_cuda_settings *s = &fake.settings;
    const struct {
        const char *name;
        int *value;
    } known[] = {{"init", &s->init},
                 {"version", &s->version},
                 {"devices", &s->devices},
                 {"capability", &s->capability},
                 {"has_virtual", &s->has_virtual},
                 {"shares", &s->shares},
                 {"memory_mib", &s->memory_mib},
                 {"delay_us", &s->delay_us},
                 {"seed", &s->seed},
                 {"one_caller", &s->one_caller}};
    const char *at = getenv("FAKE_CUDA");

    while (at && *at) {
        size_t n = strcspn(at, ",");
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            size_t k = strlen(known[i].name);
            if (n > k && !strncmp(at, known[i].name, k) && at[k] == '=')
                *known[i].value = atoi(at + k + 1);
        }
        at += n + (at[n] == ',');
    }
}

/* Lock held. */
static void settings_find(void)
{
    if (fake.set)
        return;
    fake.settings = fake_cuda_defaults();
    settings_from_environment();
    for (int i = 0; i < FAKE_DEVICES; i++)
        fake.contexts[i].device = i;
    fake.set = true;
}

FAKE_API void fake_cuda_set(const struct fake_cuda_settings *settings)
{
    pthread_mutex_lock(&fake.lock);
    fake.held = 0;
    for (int i = 0; i < FAKE_DEVICES; i++)
        fake_defaults_end(&fake.contexts[i]);
    while (fake.closing) /* what a lost context has dropped stays dropped */
        pthread_cond_wait(&fake.moved, &fake.lock);
    fake.set = false;
    settings_find();
    if (settings)
        fake.settings = *settings;
    fake.started = false;
    fake.live = (struct fake_cuda_live){0}; /* what a lost context has left */
    fake_chunks_forget();
    for (int i = 0; i < FAKE_DEVICES; i++)
        fake.contexts[i].retained = fake.contexts[i].broken = 0;
    fake.fail_at = fake.break_left = 0;
    fake.captures = 0;
    fake.failed = NULL;
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API void fake_cuda_fail(uint64_t n, int result)
{
    pthread_mutex_lock(&fake.lock);
    fake.fail_at = n ? fake.work.calls + n : 0;
    fake.fail_result = result;
    fake.failed = NULL;
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API const char *fake_cuda_failed(void)
{
    pthread_mutex_lock(&fake.lock);
    const char *name = fake.failed;
    pthread_mutex_unlock(&fake.lock);
    return name;
}

FAKE_API void fake_cuda_break(uint64_t n, int result)
{
    fake_cuda_break_gpu(-1, n, result);
}

FAKE_API void fake_cuda_break_gpu(int gpu, uint64_t n, int result)
{
    pthread_mutex_lock(&fake.lock);
    fake.break_left = n;
    fake.break_gpu = gpu;
    fake.break_result = result;
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API void fake_cuda_hold(int held)
{
    pthread_mutex_lock(&fake.lock);
    fake.held = held;
    pthread_cond_broadcast(&fake.moved);
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API void fake_cuda_capture(int on)
{
    pthread_mutex_lock(&fake.lock);
    fake.captures = on;
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API void fake_cuda_capture_stream(struct cuda_stream *stream)
{
    pthread_mutex_lock(&fake.lock);
    fake.captured = stream;
    pthread_mutex_unlock(&fake.lock);
}

/* Destroyed streams end what is enqueued first, so their ends are waited for. */
FAKE_API void fake_cuda_live(struct fake_cuda_live *live)
{
    pthread_mutex_lock(&fake.lock);
    fake_chunks_end();
    while (fake.closing)
        pthread_cond_wait(&fake.moved, &fake.lock);
    fake_chunks_end();
    *live = fake.live;
    live->pushed = pushed.n;
    live->mode = (uint64_t)mode;
    for (int i = 0; i < FAKE_DEVICES; i++)
        live->bytes += fake.used[i];
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API void fake_cuda_work(struct fake_cuda_work *work)
{
    pthread_mutex_lock(&fake.lock);
    *work = fake.work;
    pthread_mutex_unlock(&fake.lock);
}

FAKE_API uint64_t fake_cuda_called(const char *symbol)
{
    uint64_t n = 0;

    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < N_SYMBOLS; i++)
        if (!strcmp(symbols[i], symbol))
            n = called[i];
    pthread_mutex_unlock(&fake.lock);
    return n;
}

/* ---- Every call ------------------------------------------------------------------------------ */

_Thread_local bool fake_in_function;

/*
 * What is "potentially unsafe" while another thread captures in global mode. No list is documented:
 * memory is the example there, and queries are known from machines.
 */
static bool is_unsafe(const char *symbol)
{
    static const char *const unsafe[] = {
        "cuMemAlloc_v2",       "cuMemFree_v2",         "cuMemHostAlloc",
        "cuMemFreeHost",       "cuMemHostRegister_v2", "cuMemHostUnregister",
        "cuMemCreate",         "cuMemRelease",         "cuMemMap",
        "cuMemUnmap",          "cuMemSetAccess",       "cuIpcOpenMemHandle_v2",
        "cuIpcCloseMemHandle", "cuModuleLoadData",     "cuModuleUnload",
        "cuEventQuery",        "cuStreamQuery"};

    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if (!strcmp(unsafe[i], symbol))
            return true;
    return false;
}

int fake_call(const char *symbol)
{
    struct cuda_context *context = fake_current();
    int result = 0;

    pthread_mutex_lock(&fake.lock);
    settings_find();
    fake.work.calls++;
    for (size_t i = 0; i < N_SYMBOLS; i++)
        called[i] += !strcmp(symbols[i], symbol);
    if (fake_in_function) {
        result = CUDA_NOT_PERMITTED;
    } else if (context && context->broken) {
        result = context->broken;
    } else if (fake.fail_at && fake.work.calls == fake.fail_at) {
        fake.failed = symbol;
        result = fake.fail_result;
        if (context && (result == CUDA_ILLEGAL_ADDRESS || result == CUDA_LAUNCH_FAILED))
            context->broken = result;
    } else if (!fake.started && strcmp(symbol, "cuInit") != 0) {
        result = CUDA_NOT_INITIALIZED;
    } else if (fake.captures && mode == GLOBAL && is_unsafe(symbol)) {
        result = FAKE_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

struct cuda_context *fake_current(void)
{
    return pushed.n ? pushed.context[pushed.n - 1] : NULL;
}

int fake_call_in_context(const char *symbol)
{
    int result = fake_call(symbol);

    return result || fake_current() ? result : CUDA_INVALID_CONTEXT;
}

bool fake_work_begins(struct cuda_context *context)
{
    bool counts = fake.break_left && (fake.break_gpu < 0 || fake.break_gpu == context->device);

    if (counts && !--fake.break_left)
        context->broken = fake.break_result;
    return context->broken != 0;
}

void fake_work_ends(const struct cuda_context *context)
{
    while (context && context->broken && context->at_work)
        pthread_cond_wait(&fake.moved, &fake.lock);
}

/* For libraries beside the plugin. */
FAKE_API int cuCtxGetDevice(int *device)
{
    const struct cuda_context *c = fake_current();

    if (!c)
        return CUDA_INVALID_CONTEXT;
    *device = c->device;
    return 0;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static const struct {
    int result;
    const char *name, *text;
} results[] = {
    {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {CUDA_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy"},
    {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {FAKE_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int result_find(int result)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result)
            return (int)i;
    return -1;
}

int cuGetErrorName(int error, const char **name)
{
    int i = result_find(error);

    *name = i < 0 ? NULL : results[i].name;
    return i < 0 ? CUDA_INVALID_VALUE : 0;
}

int cuGetErrorString(int error, const char **text)
{
    int i = result_find(error);

    *text = i < 0 ? NULL : results[i].text;
    return i < 0 ? CUDA_INVALID_VALUE : 0;
}

/* ---- Devices --------------------------------------------------------------------------------- */

int cuInit(unsigned flags)
{
    CALL(cuInit);
    if (flags)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    int result = fake.settings.init          ? fake.settings.init
                 : fake.settings.devices < 1 ? CUDA_NO_DEVICE
                                             : 0;
    fake.started |= !result;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuDriverGetVersion(int *version)
{
    CALL(cuDriverGetVersion);
    *version = fake.settings.version;
    return 0;
}

int cuDeviceGetCount(int *n)
{
    CALL(cuDeviceGetCount);
    *n = fake.settings.devices;
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    CALL(cuDeviceGet);
    if (index < 0 || index >= fake.settings.devices)
        return CUDA_INVALID_DEVICE;
    *device = index;
    return 0;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    CALL(cuDeviceGetName);
    snprintf(name, (size_t)bytes, "Emulated GPU %d", device);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    CALL(cuDeviceTotalMem_v2);
    *bytes = (size_t)fake.settings.memory_mib << 20;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct fake_cuda_settings *s = &fake.settings;

    CALL(cuDeviceGetAttribute);
    switch (attribute) {
    case CUDA_MULTIPROCESSORS:
        *value = s->multiprocessors;
        return 0;
    case CUDA_UNIFIED_ADDRESSING:
        *value = 1;
        return 0;
    case CUDA_CAPABILITY_MAJOR:
        *value = s->capability / 10;
        return 0;
    case CUDA_CAPABILITY_MINOR:
        *value = s->capability % 10;
        return 0;
    case CUDA_VIRTUAL_MEMORY:
        *value = s->has_virtual;
        return 0;
    case CUDA_SHARES_BY_DESCRIPTOR:
        *value = s->shares;
        return 0;
    case CUDA_VIRTUAL_MEMORY_RDMA:
    case CUDA_PCI_DOMAIN:
    case CUDA_PCI_DEVICE:
        *value = 0;
        return 0;
    case CUDA_PCI_BUS: /* by default as in tests/data/two_nodes.xml */
        *value = s->first_bus + 0x10 * device;
        return 0;
    default:
        return CUDA_INVALID_VALUE;
    }
}

/* ---- Contexts -------------------------------------------------------------------------------- */

int cuDevicePrimaryCtxRetain(struct cuda_context **context, int device)
{
    CALL(cuDevicePrimaryCtxRetain);
    if (device < 0 || device >= fake.settings.devices)
        return CUDA_INVALID_DEVICE;
    pthread_mutex_lock(&fake.lock);
    int result = fake.contexts[device].broken; /* a new one is not to be had in this process */
    if (!result) {
        fake.contexts[device].retained++;
        fake.live.contexts++;
        *context = &fake.contexts[device];
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

/* Goes on also when the context is broken. */
int cuDevicePrimaryCtxRelease_v2(int device)
{
    int result = fake_call("cuDevicePrimaryCtxRelease_v2");

    pthread_mutex_lock(&fake.lock);
    fake_work_ends(&fake.contexts[device]);
    if (fake.contexts[device].retained) {
        fake.live.contexts--;
        if (!--fake.contexts[device].retained)
            fake_defaults_end(&fake.contexts[device]);
    } else {
        result = CUDA_INVALID_CONTEXT;
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuCtxPushCurrent_v2(struct cuda_context *context)
{
    pthread_mutex_lock(&fake.lock);
    bool good = context && context->retained && pushed.n < MOST_PUSHED;
    pthread_mutex_unlock(&fake.lock);
    if (!good)
        return CUDA_INVALID_CONTEXT;
    pushed.context[pushed.n++] = context;
    return 0;
}

int cuCtxPopCurrent_v2(struct cuda_context **context)
{
    if (!pushed.n)
        return CUDA_INVALID_CONTEXT;
    *context = pushed.context[--pushed.n];
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *exchanged)
{
    int before = mode;

    if (fake_in_function)
        return CUDA_NOT_PERMITTED;
    if (*exchanged < GLOBAL || *exchanged > RELAXED)
        return CUDA_INVALID_VALUE;
    mode = *exchanged;
    *exchanged = before;
    return 0;
}

/* ---- Modules --------------------------------------------------------------------------------- */

struct cuda_module {
    struct cuda_context *context;
};

/* A function is its number in the grid's table, from 1. */
int cuModuleLoadData(struct cuda_module **module, const void *image)
{
    uint32_t magic;

    CALL_IN_CONTEXT(cuModuleLoadData);
    memcpy(&magic, image, sizeof magic);
    if (magic != FATBIN)
        return CUDA_INVALID_IMAGE;
    struct cuda_module *m = malloc(sizeof *m);
    m->context = fake_current();
    pthread_mutex_lock(&fake.lock);
    fake.live.modules++;
    pthread_mutex_unlock(&fake.lock);
    *module = m;
    return 0;
}

int cuModuleUnload(struct cuda_module *module)
{
    int result = fake_call_in_context("cuModuleUnload");

    free(module);
    pthread_mutex_lock(&fake.lock);
    fake.live.modules--;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuModuleGetFunction(struct cuda_function **function, struct cuda_module *module,
                        const char *name)
{
    uint32_t k = fake_cuda_kernel_find(name);

    (void)module;
    CALL_IN_CONTEXT(cuModuleGetFunction);
    if (k == UINT32_MAX)
        return CUDA_NOT_FOUND;
    *function = (struct cuda_function *)(uintptr_t)(k + 1);
    return 0;
}
