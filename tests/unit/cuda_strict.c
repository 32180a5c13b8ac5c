/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver without a GPU does not let the device plugin cuda, or an application, get away
 * with, since that of a machine would not either: each a thing that a milder driver would hide.
 */
#include "cuda_open.h"

#include <errno.h>

/* A kernel; the error of the call, or of what it has enqueued. */
static int cast(struct zero_device *dev, float *to, const float *from, void *stream)
{
    struct zero_cast_args args = {to, from, 64, ZERO_F32, ZERO_F32};
    int err =
        d->launch(dev, &(struct zero_launch){ZERO_KERNEL_CAST, 0, &args, sizeof args}, stream);

    return err ? err : d->stream_sync(dev, stream, 10 * SECOND);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static void lost_alone(void)
{
    struct zero_device *a = opened(0), *b = opened(1);
    float *x = memory_of(a, 4096), *y = memory_of(b, 4096);
    void *s = stream_of(a), *t = stream_of(b), *e = event_of(b), *p = NULL;

    fake_cuda_break_gpu(0, 1, CUDA_ILLEGAL_ADDRESS);
    is_int(cast(b, y + 512, y, t), 0, "work of GPU 1 does not end the context of GPU 0");
    is_int(cast(a, x + 512, x, s), -EIO, "its own does");
    has_str(zero_last_error(), "the last kernel of this library was zero_cast_32_32",
            "and says so");
    is_int(d->alloc(a, 1, ZERO_MEM_CUDA, &p), -EIO, "it is lost");
    is_int(cast(b, y + 512, y, t), 0, "that of GPU 1 is well");
    int err = d->event_record(b, e, t);
    err = err ? err : d->stream_sync(b, t, 10 * SECOND);
    is_int(err ? err : d->event_query(b, e), 0, "with its events");
    d->event_destroy(b, e);
    is_int(d->close(a), 0, "the device closes all the same");
    is_int(device_open(0, &a), -EIO, "and is not to be had again");
    has_str(zero_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS", "for the same reason");
    ok(device_has(b, y, 4096, 0), "memory of GPU 1 is what it was");
    closed(b, "what was lost and what is well");
    fake_cuda_set(NULL);
}

int main(void)
{
    plugin_open();
    lost_alone();
    plugin_close();
    done();
}
