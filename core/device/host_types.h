/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the host device: streams are rings of operations, and one mutex guards everything that is
 * not said to be atomic. Operations that only order (record, wait, flags) are done under the mutex
 * by whoever gets there; copies, kernels and functions are run by workers without it.
 */
#ifndef ZERO_DEVICE_HOST_TYPES_H
#define ZERO_DEVICE_HOST_TYPES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/host.h"
#include "device/kernels.h"
#include "machine/clock.h"

#define HOST_RING 4096u /* operations that a stream holds, a power of two */
#define HOST_TURN 16u   /* chunks that a worker runs before it looks for other streams */
#define HOST_POLL_MIN_NS 20000
#define HOST_POLL_MAX_NS 1000000

struct host_stream;

struct host_event {
    struct host_event *next, *prev; /* of the device */
    /* The last record: reached when `stream` has done `position` operations. */
    struct host_stream *stream;
    uint64_t position;
    _Atomic uint64_t recorded, reached; /* numbers of the last record enqueued, done */
    atomic_int error;
    struct race_clock *clock; /* test mode: that of the last record's stream */
    uint32_t pending;         /* records in rings */
    bool dead;                /* destroyed: freed when nothing is pending */
};

enum host_op_kind {
    HOST_KERNEL,
    HOST_COPY,
    HOST_CALL,
    HOST_RECORD,
    HOST_WAIT,
    HOST_WAIT_VALUE,
};

struct host_op {
    uint32_t kind, kernel;
    union {
        _Alignas(8) unsigned char args[ZERO__ARGS_MAX];
        struct {
            char *dst;
            const char *src;
            uint64_t bytes;
        } copy;
        struct {
            void (*fn)(void *arg);
            void *arg;
        } call;
        struct {
            struct host_event *event;
            uint64_t number;
        } record;
        struct {
            struct host_stream *stream;
            uint64_t position;
        } wait;
        struct {
            uint64_t *addr, value;
        } flag;
    };
};

/* Of the head of a stream, by the test mode. */
enum host_delay {
    HOST_DELAY_UNDECIDED,
    HOST_DELAY_RUNNING,
    HOST_DELAY_OVER,
};

struct host_stream {
    struct host_stream *next;                   /* of the device, for ever */
    struct host_stream *ready_next;             /* in the queue of streams with work */
    struct host_stream *settle_next;            /* in the list of streams to look at again */
    bool used, ready, settling, running, ended; /* ended: no chunk of the running op is left */
    char name[32];
    uint32_t index;

    struct host_op *ring;
    uint64_t head, tail; /* operations done and enqueued; never reset */
    int error;           /* ended the stream at position error_at */
    uint64_t error_at;

    uint64_t n_chunks; /* of the running op */
    _Atomic uint64_t next_chunk;
    uint32_t workers;

    int64_t wake_ns, deadline_ns, poll_ns; /* timed head: look again, give up, pause */
    enum host_delay delay;
    uint64_t random;
};

struct zero_device {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* idle workers */
    pthread_cond_t timer; /* the one idle worker that watches wake_ns */
    pthread_cond_t done;  /* callers that wait for a stream to get on */
    const struct zero__loops *loops;
    int64_t timeout_ns;
    void (*notify)(void *arg);
    void *notify_arg;

    struct host_stream *streams, *ready_first, *ready_last, *settle_first;
    struct host_event *events;
    uint32_t n_streams, n_waiters; /* threads in `done` */
    uint32_t idle;                 /* workers in `work` that nobody has woken */
    uint32_t woken;                /* and those that are about to leave it */
    uint32_t at_hand;              /* 1 while a worker settles: it takes what it finds itself */
    bool timing, notify_due, closing;

    uint32_t n_threads;
    pthread_t *threads;

    struct race *race; /* test mode, else NULL; set before the first stream */
    uint64_t seed;
    uint32_t max_delay_us;
    _Atomic uint64_t copied; /* bytes */
};

static inline struct host_op *host_op_at(const struct host_stream *s, uint64_t position)
{
    return &s->ring[position % HOST_RING];
}

/* host_pool.c */
int host_pool_start(struct zero_device *dev, uint32_t n_threads);
void host_pool_stop(struct zero_device *dev);
/* Wakes up to n idle workers. */
void host_pool_wake(struct zero_device *dev, uint64_t n);

/*
 * host_order.c, all under the lock. host_settle(): does the ordering operations at the head of s,
 * and of every stream that waits for it, as far as they go, and queues what workers must run.
 */
void host_settle(struct zero_device *dev, struct host_stream *s);
/* The running op of s is complete. */
void host_finish(struct zero_device *dev, struct host_stream *s);
/* Looks at the streams whose time has come; returns when the next one's will. */
int64_t host_timers(struct zero_device *dev, int64_t now_ns);
/* Takes s out of the queue of streams with work. */
void host_unready(struct zero_device *dev, struct host_stream *s);
void host_make_ready(struct zero_device *dev, struct host_stream *s);
/* Gives back the lock, then tells of events that were reached. */
void host_unlock(struct zero_device *dev);

/* host_stream.c */
int host_stream_create(struct zero_device *dev, const char *name, void **stream);
int host_stream_destroy(struct zero_device *dev, void *stream);
int host_stream_sync(struct zero_device *dev, void *stream, int64_t timeout_ns);
int host_stream_wait(struct zero_device *dev, void *stream, void *event);
int host_copy(struct zero_device *dev, void *dst, const void *src, uint64_t bytes, void *stream);
int host_launch(struct zero_device *dev, const struct zero_launch *launch, void *stream);
int host_call(struct zero_device *dev, void (*fn)(void *arg), void *arg, void *stream);
int host_wait_value(struct zero_device *dev, void *stream, uint64_t *addr, uint64_t value);
int host_touch(struct zero_device *dev, void *stream, const void *base, uint64_t bytes,
               uint32_t write, const char *what);
/* Room for one more operation (the lock is held), or -ETIMEDOUT. */
int host_room(struct zero_device *dev, struct host_stream *s);
/* Appends the op that was written at the tail, and starts it if it is first. */
void host_push(struct zero_device *dev, struct host_stream *s);

/* host_event.c */
int host_event_create(struct zero_device *dev, void **event);
int host_event_destroy(struct zero_device *dev, void *event);
int host_event_record(struct zero_device *dev, void *event, void *stream);
int host_event_query(struct zero_device *dev, void *event);
void host_event_free(struct zero_device *dev, struct host_event *event);

/* host_memory.c */
int host_alloc(struct zero_device *dev, uint64_t bytes, uint32_t mem, void **base);
int host_release(struct zero_device *dev, void *base, uint64_t bytes, uint32_t mem);
void host_memory_info(struct zero_device_info *info);

#endif
