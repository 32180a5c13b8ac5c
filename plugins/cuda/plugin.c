/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the plugin `cuda`; see cuda.h for what it is. */
#include "config.h"

#include "../common/entry.h"
#include "cuda.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifdef ZERO_CUDA_TOOLKIT
#define MADE_BY ", kernels by CUDA " TEXT(ZERO_CUDA_TOOLKIT_TEXT)
#else
#define MADE_BY ""
#endif

const struct zero_device_ops zero__cuda_ops = {
    .size = sizeof(struct zero_device_ops),
    .probe = zero__cuda_probe,
    .open = zero__cuda_open,
    .close = zero__cuda_close,
    .info = zero__cuda_info,
    .alloc = zero__cuda_alloc,
    .release = zero__cuda_release,
    .stream_create = zero__cuda_stream_create,
    .stream_destroy = zero__cuda_stream_destroy,
    .stream_sync = zero__cuda_stream_sync,
    .stream_wait = zero__cuda_stream_wait,
    .event_create = zero__cuda_event_create,
    .event_destroy = zero__cuda_event_destroy,
    .event_record = zero__cuda_event_record,
    .event_query = zero__cuda_event_query,
    .copy = zero__cuda_copy,
    .launch = zero__cuda_launch,
    .call = zero__cuda_call,
    .grow = zero__cuda_grow,
    .pin = zero__cuda_pin,
    .unpin = zero__cuda_unpin,
    .share = zero__cuda_share,
    .attach = zero__cuda_attach,
    .detach = zero__cuda_detach,
};

ZERO__PLUGIN(CUDA_NAME, DEVICE, &zero__cuda_ops, __VERSION__ MADE_BY)
