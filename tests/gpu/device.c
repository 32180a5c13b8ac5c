/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt2/gpu/plan.h"
#include "plugins/cuda/kernel/launch.h"

#define MOST_PARAMS 4096 /* as CUDA has it */

static char sentence[512];

static int keep(void *ctx, const char *plugin, int err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int keep(void *ctx, const char *plugin, int err, const char *format, ...)
{
    va_list ap;

    (void)ctx, (void)plugin;
    va_start(ap, format);
    vsnprintf(sentence, sizeof sentence, format, ap);
    va_end(ap);
    return err;
}

void gpu_check(const struct gpu *g, int result, const char *what)
{
    char text[CUDA_ERROR_TEXT];

    if (!result)
        return;
    printf("Bail out! %s: %s\n", what, zero__cuda_text(&g->driver, result, text));
    exit(1);
}

bool gpu_open(struct gpu *g, char *why, size_t n)
{
    static const struct zero_host host = {.size = sizeof host, .fail = keep};
    const struct zero__voice voice = {&host, "cuda"};
    int device, err;

    memset(g, 0, sizeof *g);
    err = zero__cuda_driver_open(&voice, &g->driver);
    if (err) {
        snprintf(why, n, "%s", sentence);
        return false;
    }
    gpu_check(g, g->driver.device_get(&device, 0), "the first GPU");
    gpu_check(g, g->driver.device_name(g->name, sizeof g->name, device), "its name");
    gpu_check(g, g->driver.device_attribute(&g->multiprocessors, CUDA_MULTIPROCESSORS, device),
              "its multiprocessors");
    gpu_check(g, g->driver.context_retain(&g->context, device), "its context");
    gpu_check(g, g->driver.context_push(g->context), "its context");
    gpu_check(g, g->driver.module_load(&g->modules[0], zero__cuda_module), "the plugin's kernels");
    gpu_check(g, g->driver.module_load(&g->modules[1], gpt2_gpu_module), "zero-gpt2's kernels");
    gpu_check(g, g->driver.stream_create(&g->stream, CUDA_STREAM_NON_BLOCKING), "a stream");
    void *symbol = dlsym(g->driver.library, "cuEventElapsedTime");
    memcpy(&g->elapsed, &symbol, sizeof symbol);
    return true;
}

void gpu_close(struct gpu *g)
{
    struct cuda_context *mine;
    int device = 0;

    g->driver.stream_destroy(g->stream);
    for (int i = 0; i < 2; i++)
        g->driver.module_unload(g->modules[i]);
    g->driver.context_pop(&mine);
    g->driver.device_get(&device, 0);
    g->driver.context_release(device);
}

void *gpu_alloc(const struct gpu *g, size_t bytes)
{
    cuda_address at = 0;

    gpu_check(g, g->driver.memory_alloc(&at, bytes ? bytes : 1), "memory of the GPU");
    return (void *)(uintptr_t)at;
}

void gpu_free(const struct gpu *g, void *p)
{
    gpu_check(g, g->driver.memory_free((uintptr_t)p), "giving memory of the GPU back");
}

void gpu_copy(const struct gpu *g, void *dst, const void *src, size_t bytes)
{
    gpu_check(g, g->driver.copy((uintptr_t)dst, (uintptr_t)src, bytes, g->stream), "a copy");
}

void gpu_wait(const struct gpu *g)
{
    int result;

    while ((result = g->driver.stream_query(g->stream)) == CUDA_NOT_READY)
        ;
    gpu_check(g, result, "work on the GPU");
}

void gpu_launch(const struct gpu *g, const char *name, const uint32_t grid[2], uint32_t block,
                uint32_t shared_bytes, const void *params, size_t bytes)
{
    void *extra[] = {CUDA_PARAMS_BUFFER, (void *)(uintptr_t)params, CUDA_PARAMS_BYTES, &bytes,
                     CUDA_PARAMS_END};
    struct cuda_function *function;
    const int module = strncmp(name, "gpt2_", 5) == 0;

    gpu_check(g, g->driver.module_function(&function, g->modules[module], name), name);
    gpu_check(g,
              g->driver.launch(function, grid[0], grid[1], 1, block, 1, 1, shared_bytes, g->stream,
                               NULL, extra),
              name);
}

void gpu_run(const struct gpu *g, const char *name, const uint32_t grid[2], uint32_t block,
             uint32_t shared_bytes, const void *params, size_t bytes,
             const struct gpu_array *arrays, uint32_t n)
{
    _Alignas(16) unsigned char words[MOST_PARAMS];
    void *there[GPU_ARRAYS];
    uint64_t word;

    if (bytes > sizeof words || n > GPU_ARRAYS)
        gpu_check(g, CUDA_INVALID_VALUE, name);
    memcpy(words, params, bytes);
    for (uint32_t i = 0; i < n; i++) {
        there[i] = gpu_alloc(g, arrays[i].bytes);
        gpu_copy(g, there[i], arrays[i].at, arrays[i].bytes);
    }
    for (size_t k = 0; k + sizeof word <= bytes; k += sizeof word)
        for (uint32_t i = 0; i < n; i++) {
            memcpy(&word, params + k, sizeof word);
            word -= (uintptr_t)arrays[i].at;
            if (word > arrays[i].bytes)
                continue;
            word += (uintptr_t)there[i];
            memcpy(words + k, &word, sizeof word);
            break;
        }
    gpu_launch(g, name, grid, block, shared_bytes, words, bytes);
    for (uint32_t i = 0; i < n; i++)
        gpu_copy(g, arrays[i].at, there[i], arrays[i].bytes);
    gpu_wait(g);
    for (uint32_t i = 0; i < n; i++)
        gpu_free(g, there[i]);
}

struct cuda_event *gpu_mark(const struct gpu *g)
{
    struct cuda_event *e;

    gpu_check(g, g->driver.event_create(&e, 0), "an event");
    gpu_check(g, g->driver.event_record(e, g->stream), "an event");
    return e;
}

double gpu_seconds(const struct gpu *g, struct cuda_event *from, struct cuda_event *to)
{
    float ms = 0;

    gpu_wait(g);
    gpu_check(g, g->elapsed(&ms, from, to), "the time between two events");
    g->driver.event_destroy(from);
    g->driver.event_destroy(to);
    return (double)ms * 1e-3;
}
