/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU for the tests and figures that need one: the driver itself, with a context, a stream and
 * the modules of the plugin and of zero-gpt2. What goes wrong ends the program with a sentence.
 */
#ifndef ZERO_TESTS_GPU_DEVICE_H
#define ZERO_TESTS_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/cuda/driver.h"

#define GPU_ARRAYS 24u

struct gpu {
    struct cuda_driver driver;
    struct cuda_context *context;
    struct cuda_module *modules[2]; /* the plugin's, zero-gpt2's */
    struct cuda_stream *stream;
    int (*elapsed)(float *ms, struct cuda_event *from, struct cuda_event *to);
    char name[96];
    int multiprocessors;
};

/* Memory of the host that a launch works on, in copies on the device. */
struct gpu_array {
    void *at;
    size_t bytes;
};

/* The first GPU; its context is current on this thread then. false: there is none, `why` says it.
 */
bool gpu_open(struct gpu *g, char *why, size_t n);
void gpu_close(struct gpu *g);

/* Ends the program unless result is 0. */
void gpu_check(const struct gpu *g, int result, const char *what);

void *gpu_alloc(const struct gpu *g, size_t bytes);
void gpu_free(const struct gpu *g, void *p);
void gpu_copy(const struct gpu *g, void *dst, const void *src, size_t bytes);
void gpu_wait(const struct gpu *g);

/* One launch by the name of its function. */
void gpu_launch(const struct gpu *g, const char *name, const uint32_t grid[2], uint32_t block,
                uint32_t shared_bytes, const void *params, size_t bytes);

/*
 * The same, where params names addresses inside the arrays: these go to the device, the launch is
 * run there, and they come back.
 */
void gpu_run(const struct gpu *g, const char *name, const uint32_t grid[2], uint32_t block,
             uint32_t shared_bytes, const void *params, size_t bytes,
             const struct gpu_array *arrays, uint32_t n);

/* Marks in the stream, and the seconds between two of them. */
struct cuda_event *gpu_mark(const struct gpu *g);
double gpu_seconds(const struct gpu *g, struct cuda_event *from, struct cuda_event *to);

#endif
