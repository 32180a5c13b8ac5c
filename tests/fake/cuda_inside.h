/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the fake driver share. One lock guards everything but the queues' work. */
#ifndef ZERO_TESTS_FAKE_CUDA_INSIDE_H
#define ZERO_TESTS_FAKE_CUDA_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "../../plugins/cuda/driver.h"
#include "cuda_driver.h"

/* Values of the driver's ABI that the plugin has no use for: results, and an attribute. */
enum {
    FAKE_CAPTURE_UNSUPPORTED = 900,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_OPERATING_SYSTEM = 304,
    CUDA_NOT_FOUND = 500,
    CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_UNIFIED_ADDRESSING = 41,
};

#define FAKE_API __attribute__((visibility("default")))
#define FAKE_DEVICES 16
#define FAKE_DEFAULTS 2 /* streams whose handles are 1 and 2 */

/* The context of a GPU; its number is the device. That one is lost does not touch the others. */
struct cuda_context {
    int device;
    uint32_t retained;
    int broken;       /* what every call returns where it is current, but those that end things */
    uint64_t at_work; /* streams of it that use memory without the lock */
    struct cuda_stream *defaults[FAKE_DEFAULTS]; /* NULL: not used yet */
};

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t moved; /* a queue has something, or something was done */
    struct fake_cuda_settings settings;
    bool set, started;
    struct cuda_context contexts[FAKE_DEVICES];
    uint64_t used[FAKE_DEVICES];
    struct fake_cuda_live live;
    struct fake_cuda_work work;
    uint64_t fail_at;    /* counted in work.calls */
    uint64_t break_left; /* pieces of work up to the one that ends the context; 0: none does */
    int break_gpu;       /* whose they are; negative: of any */
    int fail_result, break_result;
    const char *failed;
    int held;
    int captures;     /* in the mode of all threads */
    const struct cuda_stream *captured; /* NULL: none is */
    uint64_t closing; /* streams that are destroyed and not yet idle */
};
extern struct fake fake;

/* This thread is in a function that a stream has called: it may not call the driver. */
extern _Thread_local bool fake_in_function;

/* Counts the call; 0, or what it is to return instead of doing anything. Lock not held. */
int fake_call(const char *symbol);
/* The same of a call that needs a context. */
int fake_call_in_context(const char *symbol);
/* The calling thread's, or NULL. */
struct cuda_context *fake_current(void);

/* Begins a piece of work of a stream of that context: true if it must not be done. Lock held. */
bool fake_work_begins(struct cuda_context *context);

/* Lock held. A lost context (NULL: none) ends what its streams are at before memory goes. */
void fake_work_ends(const struct cuda_context *context);

/* A function of the host, for a stream that has come to it. Lock held, and given back meanwhile. */
void fake_function_run(void (*fn)(void *arg), void *arg);

/* The default streams of a context that nobody has any more. Lock held. */
void fake_defaults_end(struct cuda_context *context);

/* Physical memory that others had, and have no more, goes. Lock held. */
void fake_chunks_end(void);
/* What there is counts no more: it is from before the last fake_cuda_set(). Lock held. */
void fake_chunks_forget(void);

/*
 * The place of n bytes for work of a GPU: where those of a device are kept; NULL where nothing is
 * mapped, or what that GPU may not touch, or copy. Of host memory itself; *pageable: nobody has
 * pinned it. Lock held.
 */
void *fake_place(uint64_t address, uint64_t n, int gpu, bool copies, bool *pageable);

/*
 * A word that a kernel is given becomes the place of what lies there, if it is an address of a
 * device. False: memory that the GPU may not touch. Lock held.
 */
bool fake_param_place(uint64_t *word, int gpu);

#define CALL(symbol)                          \
    do {                                      \
        int call_result = fake_call(#symbol); \
        if (call_result)                      \
            return call_result;               \
    } while (0)
#define CALL_IN_CONTEXT(symbol)                          \
    do {                                                 \
        int call_result = fake_call_in_context(#symbol); \
        if (call_result)                                 \
            return call_result;                          \
    } while (0)

/* Prototypes of the interface, from the plugin's list. */
#define DECLARE(member, symbol, parameters) FAKE_API int symbol parameters;
ZERO__CUDA_CALLS(DECLARE)
#undef DECLARE
/* And what programs beside the plugin call. */
FAKE_API int cuCtxGetDevice(int *device);
FAKE_API int cuStreamGetCtx(struct cuda_stream *stream, struct cuda_context **context);
FAKE_API int cuThreadExchangeStreamCaptureMode(int *mode);
FAKE_API int cuEventElapsedTime(float *ms, struct cuda_event *from, struct cuda_event *to);

#endif
