/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of the fake driver: each a thread that does what is enqueued, in order. Events are two
 * counters, of the last record that was enqueued and of the last one that was reached.
 *
 * The default streams, by the handles 1 and 2, are streams like others, one of each kind in a
 * context. NULL is none, though on a machine it stands for the first: the plugin must not pass it.
 */
#include "config.h"

#include "cuda_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_grid.h"

#define MOST_PARAMS 4096 /* as CUDA has it */

enum op_kind { OP_COPY, OP_SET, OP_KERNEL, OP_WORK, OP_CALL, OP_RECORD, OP_WAIT };

struct cuda_event {
    struct cuda_context *context;
    uint64_t recorded, reached;
    struct timespec when; /* it was reached last */
    bool timed;
    uint32_t users; /* in queues */
    bool dead;
};

struct op {
    struct op *next;
    enum op_kind kind;
    uint64_t dst, src, bytes;
    unsigned char value;
    struct cuda_event *event;
    uint64_t number;
    void (*fn)(void *arg);
    void (*work)(void *arg, int gpu);
    void *arg;
    uint32_t kernel, grid[3], block[3], shared_bytes;
    uint64_t params_bytes;
    _Alignas(16) unsigned char params[MOST_PARAMS];
};

struct cuda_stream {
    struct op *first, **last;
    bool busy, closing;
    uint64_t random;
    struct cuda_context *context;
};

/* ---- What the threads do --------------------------------------------------------------------- */

static void delay(struct cuda_stream *s)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t us = (s->random >> 33) % (uint64_t)(fake.settings.delay_us + 1);
    const struct timespec t = {0, (long)us * 1000};

    if (us)
        nanosleep(&t, NULL);
}

/* Lock held. The stream has done what is not allowed: its context is lost. */
static void astray(struct cuda_stream *s, int result)
{
    fake.work.illegal++;
    s->context->broken = result;
}

/* Lock held; given back while bytes move. */
static void move_bytes(struct cuda_stream *s, const struct op *op)
{
    const int gpu = s->context->device;
    bool copies = op->kind == OP_COPY, pageable = false;
    void *dst = fake_place(op->dst, op->bytes, gpu, copies, &pageable);
    void *src = copies ? fake_place(op->src, op->bytes, gpu, copies, &pageable) : dst;

    fake.work.pageable += copies && pageable;
    if (!dst || !src) {
        astray(s, CUDA_ILLEGAL_ADDRESS);
        return;
    }
    s->context->at_work++;
    pthread_mutex_unlock(&fake.lock);
    if (op->kind == OP_SET)
        memset(dst, op->value, op->bytes);
    else
        memcpy(dst, src, op->bytes);
    pthread_mutex_lock(&fake.lock);
    s->context->at_work--;
    fake.work.copies += copies;
    fake.work.copied_bytes += copies ? op->bytes : 0;
    if (copies && ((uintptr_t)dst == op->dst || (uintptr_t)src == op->src))
        fake.work.host_bytes += op->bytes; /* what a device has is kept elsewhere */
}

/* Lock held; given back meanwhile. Addresses of devices are parameters, and lie nowhere else. */
static void kernel_run(struct cuda_stream *s, struct op *op)
{
    char error[256] = "";
    uint64_t word;

    for (uint64_t i = 0; i + sizeof word <= op->params_bytes; i += sizeof word) {
        memcpy(&word, op->params + i, sizeof word);
        if (!fake_param_place(&word, s->context->device)) {
            astray(s, CUDA_ILLEGAL_ADDRESS);
            return;
        }
        memcpy(op->params + i, &word, sizeof word);
    }
    s->context->at_work++;
    pthread_mutex_unlock(&fake.lock);
    int err = fake_cuda_run(op->kernel, op->grid, op->block, op->shared_bytes, op->params, error,
                            sizeof error);
    pthread_mutex_lock(&fake.lock);
    s->context->at_work--;
    fake.work.launches++;
    if (!err)
        return;
    fprintf(stderr, "fake CUDA: %s\n", error);
    astray(s, CUDA_LAUNCH_FAILED);
}

/* What a library computes, or a function of the host; lock held, and given back meanwhile. */
static void call_run(struct cuda_stream *s, const struct op *op)
{
    s->context->at_work++;
    if (op->kind == OP_CALL) {
        fake_function_run(op->fn, op->arg);
        fake.work.functions++;
    } else {
        pthread_mutex_unlock(&fake.lock);
        op->work(op->arg, s->context->device);
        pthread_mutex_lock(&fake.lock);
        fake.work.launches++;
    }
    s->context->at_work--;
}

static void event_drop(struct cuda_event *e)
{
    if (e->dead && !e->users)
        free(e);
}

/* Lock held. */
static void op_run(struct cuda_stream *s, struct op *op)
{
    if (fake_work_begins(s->context))
        return;
    switch (op->kind) {
    case OP_COPY:
    case OP_SET:
        move_bytes(s, op);
        break;
    case OP_KERNEL:
        kernel_run(s, op);
        break;
    case OP_WORK:
    case OP_CALL:
        call_run(s, op);
        break;
    case OP_RECORD:
        fake.work.recorded++;
        if (op->number > op->event->reached)
            op->event->reached = op->number;
        clock_gettime(CLOCK_MONOTONIC, &op->event->when);
        break;
    case OP_WAIT:
        break;
    }
}

/* An event of a context that is lost is never reached, and holds nobody up. */
static bool can_begin(const struct cuda_stream *s, const struct op *op)
{
    if (s->context->broken)
        return true;
    return !fake.held &&
           (op->kind != OP_WAIT || op->event->reached >= op->number || op->event->context->broken);
}

static void *stream_main(void *arg)
{
    struct cuda_stream *s = arg;

    pthread_mutex_lock(&fake.lock);
    for (;;) {
        struct op *op = s->first;
        if (!op && s->closing)
            break;
        if (!op || !can_begin(s, op)) {
            pthread_cond_wait(&fake.moved, &fake.lock);
            continue;
        }
        s->busy = true;
        if (fake.settings.delay_us && !s->context->broken) {
            pthread_mutex_unlock(&fake.lock);
            delay(s);
            pthread_mutex_lock(&fake.lock);
        }
        op_run(s, op);
        s->first = op->next;
        if (!s->first)
            s->last = &s->first;
        s->busy = false;
        if (op->event) {
            op->event->users--;
            event_drop(op->event);
        }
        free(op);
        pthread_cond_broadcast(&fake.moved);
    }
    fake.closing--;
    pthread_cond_broadcast(&fake.moved);
    pthread_mutex_unlock(&fake.lock);
    free(s);
    return NULL;
}

/* Lock held. */
static struct cuda_stream *stream_start(struct cuda_context *context)
{
    struct cuda_stream *s = calloc(1, sizeof *s);
    pthread_attr_t attr;
    pthread_t thread;

    s->last = &s->first;
    s->context = context;
    s->random = (uint64_t)fake.settings.seed * 1000 + fake.live.streams;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int err = pthread_create(&thread, &attr, stream_main, s);
    pthread_attr_destroy(&attr);
    if (err)
        free(s);
    return err ? NULL : s;
}

/* Lock held. It ends when it has done what is enqueued. */
static void stream_end(struct cuda_stream *s)
{
    fake.closing++;
    s->closing = true;
    pthread_cond_broadcast(&fake.moved);
}

static bool is_default(const struct cuda_stream *handle)
{
    return (uintptr_t)handle - 1 < FAKE_DEFAULTS;
}

/* The stream of a handle; a default one is the current context's. NULL: there is none. */
static struct cuda_stream *stream_of(struct cuda_stream *handle)
{
    if (!is_default(handle))
        return handle;
    pthread_mutex_lock(&fake.lock);
    struct cuda_stream **at = &fake_current()->defaults[(uintptr_t)handle - 1];
    struct cuda_stream *s = *at ? *at : stream_start(fake_current());
    *at = s;
    pthread_mutex_unlock(&fake.lock);
    return s;
}

void fake_defaults_end(struct cuda_context *context)
{
    for (int i = 0; i < FAKE_DEFAULTS; i++) {
        if (context->defaults[i])
            stream_end(context->defaults[i]);
        context->defaults[i] = NULL;
    }
}

/* Takes a copy of op. */
static int push(struct cuda_stream *handle, const struct op *op)
{
    struct cuda_stream *s = stream_of(handle);
    struct op *copy;

    if (!s)
        return CUDA_INVALID_HANDLE;
    copy = malloc(sizeof *copy);
    *copy = *op;
    copy->next = NULL;
    pthread_mutex_lock(&fake.lock);
    if (copy->event) {
        copy->event->users++;
        copy->number = op->kind == OP_RECORD ? ++copy->event->recorded : copy->event->recorded;
    }
    *s->last = copy;
    s->last = &copy->next;
    pthread_cond_broadcast(&fake.moved);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* ---- Streams --------------------------------------------------------------------------------- */

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CALL_IN_CONTEXT(cuCtxGetStreamPriorityRange);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return 0;
}

static int stream_create(struct cuda_stream **stream, unsigned flags)
{
    struct cuda_stream *s;

    if (flags != CUDA_STREAM_NON_BLOCKING)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    s = stream_start(fake_current());
    fake.live.streams += s != NULL;
    pthread_mutex_unlock(&fake.lock);
    if (!s)
        return CUDA_OPERATING_SYSTEM;
    *stream = s;
    return 0;
}

int cuStreamCreate(struct cuda_stream **stream, unsigned flags)
{
    CALL_IN_CONTEXT(cuStreamCreate);
    return stream_create(stream, flags);
}

int cuStreamCreateWithPriority(struct cuda_stream **stream, unsigned flags, int priority)
{
    CALL_IN_CONTEXT(cuStreamCreateWithPriority);
    return priority > 0 || priority < -5 ? CUDA_INVALID_VALUE : stream_create(stream, flags);
}

int cuStreamDestroy_v2(struct cuda_stream *stream)
{
    int result = fake_call_in_context("cuStreamDestroy_v2");

    if (!stream || is_default(stream))
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    fake.live.streams--;
    stream_end(stream);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuStreamIsCapturing(struct cuda_stream *stream, int *status)
{
    CALL_IN_CONTEXT(cuStreamIsCapturing);
    if (!stream)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    *status = stream == fake.captured;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuStreamGetCtx(struct cuda_stream *stream, struct cuda_context **context)
{
    CALL(cuStreamGetCtx);
    if (!stream)
        return CUDA_INVALID_HANDLE;
    if (is_default(stream) && !fake_current())
        return CUDA_INVALID_CONTEXT;
    *context = is_default(stream) ? fake_current() : stream->context;
    return 0;
}

int cuStreamQuery(struct cuda_stream *stream)
{
    struct cuda_stream *s;

    CALL_IN_CONTEXT(cuStreamQuery);
    s = stream_of(stream);
    if (!s)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    int lost = s->context->broken, result = lost ? lost : s->first ? CUDA_NOT_READY : 0;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuStreamWaitEvent(struct cuda_stream *stream, struct cuda_event *event, unsigned flags)
{
    (void)flags;
    CALL_IN_CONTEXT(cuStreamWaitEvent);
    return push(stream, &(struct op){.kind = OP_WAIT, .event = event});
}

int cuMemcpyAsync(cuda_address dst, cuda_address src, size_t bytes, struct cuda_stream *stream)
{
    CALL_IN_CONTEXT(cuMemcpyAsync);
    return push(stream, &(struct op){.kind = OP_COPY, .dst = dst, .src = src, .bytes = bytes});
}

int cuMemsetD8Async(cuda_address base, unsigned char value, size_t bytes,
                    struct cuda_stream *stream)
{
    CALL_IN_CONTEXT(cuMemsetD8Async);
    return push(stream, &(struct op){.kind = OP_SET, .dst = base, .bytes = bytes, .value = value});
}

int cuLaunchHostFunc(struct cuda_stream *stream, void (*fn)(void *arg), void *arg)
{
    CALL_IN_CONTEXT(cuLaunchHostFunc);
    return push(stream, &(struct op){.kind = OP_CALL, .fn = fn, .arg = arg});
}

FAKE_API int fake_cuda_enqueue(struct cuda_stream *stream, void (*work)(void *arg, int gpu),
                               void *arg)
{
    CALL_IN_CONTEXT(cuLaunchKernel);
    return push(stream, &(struct op){.kind = OP_WORK, .work = work, .arg = arg});
}

int cuLaunchKernel(struct cuda_function *function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, struct cuda_stream *stream, void **params, void **extra)
{
    struct op op = {.kind = OP_KERNEL,
                    .kernel = (uint32_t)(uintptr_t)function - 1,
                    .grid = {grid_x, grid_y, grid_z},
                    .block = {block_x, block_y, block_z},
                    .shared_bytes = shared_bytes};
    const void *buffer = NULL;

    CALL_IN_CONTEXT(cuLaunchKernel);
    for (; *extra != CUDA_PARAMS_END; extra += 2) {
        if (extra[0] == CUDA_PARAMS_BUFFER)
            buffer = extra[1];
        else if (extra[0] == CUDA_PARAMS_BYTES)
            op.params_bytes = *(const size_t *)extra[1];
    }
    if (params || !buffer || op.params_bytes > MOST_PARAMS ||
        !fake_cuda_may_launch(op.kernel, op.grid, op.block, shared_bytes, op.params_bytes))
        return CUDA_INVALID_VALUE;
    memcpy(op.params, buffer, op.params_bytes);
    return push(stream, &op);
}

/* ---- Events ---------------------------------------------------------------------------------- */

int cuEventCreate(struct cuda_event **event, unsigned flags)
{
    CALL_IN_CONTEXT(cuEventCreate);
    if (flags & ~(unsigned)CUDA_EVENT_DISABLE_TIMING)
        return CUDA_INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    (*event)->context = fake_current();
    (*event)->timed = !flags;
    pthread_mutex_lock(&fake.lock);
    fake.live.events++;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int cuEventDestroy_v2(struct cuda_event *event)
{
    int result = fake_call_in_context("cuEventDestroy_v2");

    pthread_mutex_lock(&fake.lock);
    fake.live.events--;
    event->dead = true;
    event_drop(event);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuEventRecord(struct cuda_event *event, struct cuda_stream *stream)
{
    CALL_IN_CONTEXT(cuEventRecord);
    return push(stream, &(struct op){.kind = OP_RECORD, .event = event});
}

int cuEventQuery(struct cuda_event *event)
{
    CALL_IN_CONTEXT(cuEventQuery);
    pthread_mutex_lock(&fake.lock);
    int lost = event->context->broken;
    int result = lost ? lost : event->reached < event->recorded ? CUDA_NOT_READY : 0;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

int cuEventElapsedTime(float *ms, struct cuda_event *from, struct cuda_event *to)
{
    CALL(cuEventElapsedTime);
    pthread_mutex_lock(&fake.lock);
    int result = !from->timed || !to->timed ? CUDA_INVALID_HANDLE
                 : from->reached < from->recorded || to->reached < to->recorded ? CUDA_NOT_READY
                                                                                : 0;
    *ms = (float)(to->when.tv_sec - from->when.tv_sec) * 1e3f +
          (float)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6f;
    pthread_mutex_unlock(&fake.lock);
    return result;
}
