/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers: each takes a piece of the first stream that has work, puts that stream at the end of
 * the queue, and runs the piece without the lock. One idle worker watches the clock when a stream
 * waits for a time; the others sleep until they are woken.
 */
#include "config.h"

#include "device/host_types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/thread.h"

void host_pool_wake(struct zero_device *dev, uint64_t n)
{
    for (; n && dev->idle; n--) {
        dev->idle--;
        dev->woken++;
        pthread_cond_signal(&dev->work);
    }
    if (n && dev->timing)
        pthread_cond_signal(&dev->timer);
}

static void copy_chunk(const struct host_op *op, uint64_t chunk)
{
    uint64_t at = chunk * ZERO__CHUNK_BYTES, rest = op->copy.bytes - at;

    memcpy(op->copy.dst + at, op->copy.src + at,
           rest < ZERO__CHUNK_BYTES ? rest : ZERO__CHUNK_BYTES);
}

static void run_chunk(const struct zero_device *dev, const struct host_op *op, uint64_t chunk)
{
    switch (op->kind) {
    case HOST_KERNEL:
        zero__kernel_run(dev->loops, op->kernel, op->args, chunk);
        break;
    case HOST_COPY:
        copy_chunk(op, chunk);
        break;
    case HOST_CALL:
        op->call.fn(op->call.arg);
        break;
    }
}

/* Up to a turn of chunks of the running op; true when none is left to take. */
static bool run_turn(const struct zero_device *dev, struct host_stream *s)
{
    const struct host_op *op = host_op_at(s, s->head);

    for (unsigned i = 0; i < HOST_TURN; i++) {
        uint64_t chunk = atomic_fetch_add_explicit(&s->next_chunk, 1, memory_order_relaxed);
        if (chunk >= s->n_chunks)
            return true;
        run_chunk(dev, op, chunk);
    }
    return false;
}

static void work_on(struct zero_device *dev, struct host_stream *s)
{
    bool ended;

    host_unready(dev, s);
    if (s->n_chunks > 1)
        host_make_ready(dev, s); /* at the end: others may join, other streams come first */
    s->workers++;
    pthread_mutex_unlock(&dev->lock);
    ended = run_turn(dev, s);
    pthread_mutex_lock(&dev->lock);
    s->workers--;
    s->ended |= ended;
    if (!s->ended)
        return;
    host_unready(dev, s);
    if (s->workers == 0) {
        dev->at_hand = 1;
        host_finish(dev, s);
        dev->at_hand = 0;
    }
}

static void wait_until(struct zero_device *dev, int64_t wake_ns)
{
    dev->timing = true;
    zero__cond_until(&dev->timer, &dev->lock, wake_ns);
    dev->timing = false;
}

static void sleep_idle(struct zero_device *dev)
{
    dev->idle++;
    while (!dev->woken && !dev->closing)
        pthread_cond_wait(&dev->work, &dev->lock);
    if (dev->woken)
        dev->woken--;
}

static void *worker(void *arg)
{
    struct zero_device *dev = arg;

    pthread_mutex_lock(&dev->lock);
    while (!dev->closing) {
        int64_t wake_ns = host_timers(dev, zero__now_ns());

        if (dev->notify_due) {
            host_unlock(dev);
            pthread_mutex_lock(&dev->lock);
        } else if (dev->ready_first) {
            if (wake_ns != ZERO_NEVER && !dev->timing)
                host_pool_wake(dev, 1); /* somebody else watches the clock */
            work_on(dev, dev->ready_first);
        } else if (wake_ns != ZERO_NEVER && !dev->timing) {
            wait_until(dev, wake_ns);
        } else {
            sleep_idle(dev);
        }
    }
    pthread_mutex_unlock(&dev->lock);
    return NULL;
}

static int start_thread(struct zero_device *dev, uint32_t i)
{
    char name[16];
    int err;

    err = zero__thread_create(&dev->threads[i], NULL, worker, dev);
    if (err)
        return zero__fail(-err,
                          "host device: cannot start worker %u: %s; set fewer in "
                          "ZERO_THREADS" ZERO__THREAD_LIMITS,
                          i, strerror(err));
    snprintf(name, sizeof name, "zero-host-%u", i % 100000);
    pthread_setname_np(dev->threads[i], name);
    dev->n_threads++;
    return 0;
}

int host_pool_start(struct zero_device *dev, uint32_t n_threads)
{
    int err = 0;

    dev->threads = calloc(n_threads, sizeof *dev->threads);
    if (!dev->threads)
        return zero__fail(-ENOMEM, "host device: no memory for %u threads", n_threads);
    for (uint32_t i = 0; i < n_threads && !err; i++)
        err = start_thread(dev, i);
    if (err)
        host_pool_stop(dev);
    return err;
}

void host_pool_stop(struct zero_device *dev)
{
    pthread_mutex_lock(&dev->lock);
    dev->closing = true;
    pthread_cond_broadcast(&dev->work);
    pthread_cond_broadcast(&dev->timer);
    pthread_mutex_unlock(&dev->lock);
    for (uint32_t i = 0; i < dev->n_threads; i++)
        pthread_join(dev->threads[i], NULL);
    free(dev->threads);
    dev->threads = NULL;
    dev->n_threads = 0;
}
