/* SPDX-License-Identifier: Apache-2.0 */
/* The context on a thread, and what becomes of results. */
#include "cuda.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Again what made the context useless. */
static int broken(struct zero_device *dev)
{
    int err = atomic_load_explicit(&dev->is_broken, memory_order_acquire);

    return err ? zero__say(&dev->voice, err, "%s", dev->why) : 0;
}

/*
 * The thread's mode of capture before it entered, or NOT_CHANGED; entries do not nest. It lies
 * where threads have it from their beginning: the plugin is loaded late.
 */
static _Thread_local int capture_mode __attribute__((tls_model("initial-exec")));
#define NOT_CHANGED (-1)

/*
 * While another thread of the process captures a graph in the global mode, the driver refuses to
 * ask for events, or for memory, to all threads but those in the relaxed mode.
 */
int zero__cuda_enter_to_end(struct zero_device *dev)
{
    int err =
        zero__cuda_check(dev, dev->driver.context_push(dev->context), "entering the context");

    capture_mode = CUDA_CAPTURE_RELAXED;
    if (!err && dev->driver.capture_mode(&capture_mode))
        capture_mode = NOT_CHANGED;
    return err;
}

int zero__cuda_enter(struct zero_device *dev)
{
    int err = broken(dev);

    return err ? err : zero__cuda_enter_to_end(dev);
}

void zero__cuda_leave(struct zero_device *dev)
{
    struct cuda_context *mine;

    if (capture_mode != NOT_CHANGED)
        dev->driver.capture_mode(&capture_mode);
    dev->driver.context_pop(&mine);
}

/* The first one counts; all see the same sentence. */
static void breaks(struct zero_device *dev, int err, const char *what, const char *text)
{
    uint32_t last = atomic_load_explicit(&dev->last_kernel, memory_order_relaxed);

    pthread_mutex_lock(&dev->lock);
    if (!atomic_load(&dev->is_broken)) {
        snprintf(
            dev->why, sizeof dev->why,
            "%s: %s: the device's context is lost, with all that the process has there; it was "
            "seen by this call, and may come from any work before it (the last kernel of this "
            "library was %s): compute-sanitizer finds where it comes from",
            what, text, last ? zero__cuda_kernel_name(last - 1) : "none yet");
        atomic_store_explicit(&dev->is_broken, err, memory_order_release);
    }
    pthread_mutex_unlock(&dev->lock);
}

int zero__cuda_check(struct zero_device *dev, int result, const char *fmt, ...)
{
    char what[160], text[CUDA_ERROR_TEXT];
    int err = zero__cuda_errno(result);
    va_list ap;

    if (!err)
        return 0;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    zero__cuda_text(&dev->driver, result, text);
    if (zero__cuda_sticks(result)) {
        breaks(dev, err, what, text);
        return broken(dev);
    }
    return zero__say(&dev->voice, err, "%s: %s%s", what, text,
                     zero__cuda_is_capture(result)
                         ? ": a CUDA graph is captured, on that stream, by this thread, or beside "
                           "CU_STREAM_LEGACY: end the capture before zero_acquire() and "
                           "zero_release()"
                         : "");
}
