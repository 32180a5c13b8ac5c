/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may run when: looks at the heads of streams, does the operations that only order, and queues
 * streams whose head is work. Everything here runs under the device's lock and never waits.
 */
#include "device/host_types.h"

#include <errno.h>

static uint64_t random_of(struct host_stream *s)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void host_unlock(struct zero_device *dev)
{
    bool due = dev->notify_due;

    dev->notify_due = false;
    pthread_mutex_unlock(&dev->lock);
    if (due && dev->notify)
        dev->notify(dev->notify_arg);
}

/* s waits until wake_ns; the worker that watches the clock has to know. */
static void sleep_until(struct zero_device *dev, struct host_stream *s, int64_t wake_ns)
{
    s->wake_ns = wake_ns;
    if (dev->timing)
        pthread_cond_signal(&dev->timer);
    else
        host_pool_wake(dev, 1);
}

static void look_again(struct zero_device *dev, struct host_stream *s)
{
    if (s->settling)
        return;
    s->settling = true;
    s->settle_next = dev->settle_first;
    dev->settle_first = s;
}

/* All streams whose head may have been waiting for the record just done. */
static void look_at_waiters(struct zero_device *dev)
{
    for (struct host_stream *s = dev->streams; s; s = s->next)
        if (s->head != s->tail && host_op_at(s, s->head)->kind == HOST_WAIT)
            look_again(dev, s);
}

static void fail(struct host_stream *s, int error)
{
    if (s->error)
        return;
    s->error = error;
    s->error_at = s->head;
}

/* Test mode: half of all operations start late. True while the head has to wait. */
static bool delay(struct zero_device *dev, struct host_stream *s)
{
    if (!dev->max_delay_us)
        return false;
    if (s->delay == HOST_DELAY_UNDECIDED) {
        uint64_t r = random_of(s);
        s->delay = r & 1 ? HOST_DELAY_RUNNING : HOST_DELAY_OVER;
        if (r & 1)
            sleep_until(dev, s, zero__now_ns() + (int64_t)((r >> 1) % dev->max_delay_us) * 1000);
    } else if (s->wake_ns == ZERO_NEVER) {
        s->delay = HOST_DELAY_OVER;
    }
    return s->delay == HOST_DELAY_RUNNING;
}

static bool record(struct zero_device *dev, struct host_stream *s, struct host_op *op)
{
    struct host_event *e = op->record.event;

    atomic_store_explicit(&e->error, s->error, memory_order_relaxed);
    /* Records on several streams may be done out of order; the last one enqueued counts. */
    if (op->record.number > atomic_load_explicit(&e->reached, memory_order_relaxed))
        atomic_store_explicit(&e->reached, op->record.number, memory_order_release);
    if (--e->pending == 0 && e->dead)
        host_event_free(dev, e);
    dev->notify_due = true;
    return true;
}

static bool wait_event(struct host_stream *s, const struct host_op *op)
{
    const struct host_stream *other = op->wait.stream;

    if (other->head < op->wait.position)
        return false;
    if (other->error && other->error_at < op->wait.position)
        fail(s, other->error);
    return true;
}

static bool wait_value(struct zero_device *dev, struct host_stream *s, const struct host_op *op)
{
    int64_t now;

    if (__atomic_load_n(op->flag.addr, __ATOMIC_ACQUIRE) >= op->flag.value)
        return true;
    now = zero__now_ns();
    if (!s->poll_ns) {
        s->deadline_ns = zero__deadline_ns(dev->timeout_ns);
        s->poll_ns = HOST_POLL_MIN_NS;
    } else if (now >= s->deadline_ns) {
        fail(s, -ETIMEDOUT);
        return true;
    } else if (s->poll_ns < HOST_POLL_MAX_NS) {
        s->poll_ns *= 2;
    }
    sleep_until(dev, s, now + s->poll_ns);
    return false;
}

static void start(struct zero_device *dev, struct host_stream *s, const struct host_op *op)
{
    switch (op->kind) {
    case HOST_KERNEL:
        s->n_chunks = zero__kernel_chunks(op->kernel, op->args);
        break;
    case HOST_COPY:
        s->n_chunks =
            op->copy.bytes / ZERO__CHUNK_BYTES + (op->copy.bytes % ZERO__CHUNK_BYTES != 0);
        break;
    default:
        s->n_chunks = 1;
    }
    atomic_store_explicit(&s->next_chunk, 0, memory_order_relaxed);
    s->running = true;
    s->ended = false;
    host_make_ready(dev, s);
    host_pool_wake(dev, s->n_chunks - dev->at_hand);
    dev->at_hand = 0;
}

/* True: the head is done. False: it waits or was given to the workers. */
static bool step(struct zero_device *dev, struct host_stream *s)
{
    struct host_op *op = host_op_at(s, s->head);

    if (delay(dev, s))
        return false;
    if (op->kind == HOST_RECORD)
        return record(dev, s, op);
    if (s->error)
        return true;
    switch (op->kind) {
    case HOST_WAIT:
        return wait_event(s, op);
    case HOST_WAIT_VALUE:
        return wait_value(dev, s, op);
    default:
        start(dev, s, op);
        return false;
    }
}

static void next_op(struct host_stream *s)
{
    s->head++;
    s->delay = HOST_DELAY_UNDECIDED;
    s->wake_ns = ZERO_NEVER;
    s->poll_ns = 0;
}

void host_settle(struct zero_device *dev, struct host_stream *first)
{
    struct host_stream *s;

    look_again(dev, first);
    while ((s = dev->settle_first)) {
        bool recorded = false;

        dev->settle_first = s->settle_next;
        s->settling = false;
        while (!s->running && s->head != s->tail) {
            uint32_t kind = host_op_at(s, s->head)->kind;
            if (!step(dev, s))
                break;
            recorded |= kind == HOST_RECORD;
            next_op(s);
        }
        if (recorded)
            look_at_waiters(dev);
    }
    if (dev->n_waiters)
        pthread_cond_broadcast(&dev->done);
}

void host_finish(struct zero_device *dev, struct host_stream *s)
{
    s->running = false;
    next_op(s);
    host_settle(dev, s);
}

int64_t host_timers(struct zero_device *dev, int64_t now_ns)
{
    int64_t first = ZERO_NEVER;

    for (struct host_stream *s = dev->streams; s; s = s->next)
        if (s->wake_ns <= now_ns) {
            s->wake_ns = ZERO_NEVER;
            host_settle(dev, s);
        }
    for (struct host_stream *s = dev->streams; s; s = s->next)
        first = s->wake_ns < first ? s->wake_ns : first;
    return first;
}

void host_make_ready(struct zero_device *dev, struct host_stream *s)
{
    s->ready = true;
    s->ready_next = NULL;
    if (dev->ready_last)
        dev->ready_last->ready_next = s;
    else
        dev->ready_first = s;
    dev->ready_last = s;
}

void host_unready(struct zero_device *dev, struct host_stream *s)
{
    struct host_stream *before = NULL, *at = dev->ready_first;

    if (!s->ready)
        return;
    for (; at != s; at = at->ready_next)
        before = at;
    if (before)
        before->ready_next = s->ready_next;
    else
        dev->ready_first = s->ready_next;
    if (dev->ready_last == s)
        dev->ready_last = before;
    s->ready = false;
}
