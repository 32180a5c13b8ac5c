/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside core/run/: the state that its files share. `lock` guards the lanes and all counters below
 * it, unless a member says otherwise; `moved` is signalled whenever a counter moved or the runtime
 * failed. The progress thread alone moves `started` and `done` of the lanes that it serves, and may
 * read both without the lock.
 */
#ifndef ZERO_RUN_RUNNER_H
#define ZERO_RUN_RUNNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "run/failure.h"
#include "run/lane.h"
#include "run/run.h"
#include "run/serve.h"

#define ZERO__MAX_COLLS ZERO_MAX_SEGMENTS_PER_UNIT

/* Records of ops that are over, and what each op took last. */
struct zero__op_times {
    struct zero_op_time *ring;
    uint64_t capacity, first, end;  /* capacity: a power of two */
    struct zero__costs costs;       /* what each op took when it ran last */
    int64_t end_ns[ZERO__N_QUEUES]; /* of each queue's last op */
    int64_t left_ns;                /* when the application's thread returned to the application */
    double end_s;                   /* of this step, as in the costs */
};

/* Bytes that the disk has moved. */
struct zero__disk_moved {
    uint64_t read, written;             /* bytes, as the stores count them */
    uint32_t flags;                     /* enum zero_store_flags, as of now */
    int64_t at_ns;                      /* when a request ended, or bytes moved, last */
    uint64_t tried_read, tried_written; /* by the trial store */
};

struct zero__runner {
    const struct zero__site *site;

    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct zero__lane lanes[ZERO__N_QUEUES];
    const struct zero__ordering *order;
    uint64_t n_placed; /* ops that have a place */
    uint64_t n_begun;  /* places that have started; in streams they start in this order */
    uint64_t update_base[ZERO__N_QUEUES]; /* where the lanes stood as the last update began */
    int has_updated;      /* the running program has: parts of its update may be in flight */
    uint64_t use;         /* ordinal of the use that was issued last */
    int use_is_open;      /* it was begun and has not ended */
    void *use_stream;     /* on which the last use ended */
    uint64_t wire_bytes;  /* as the plugin has counted them */
    uint64_t *zero_count; /* by segment: arguments of launches, which may still be read */
    void *scratch;        /* states.staging_bytes: values on their way to and from a disk */
    double *sums;         /* of zero_sum(): ZERO__SUM_MOST of every rank */
    struct zero__callbacks *callbacks;
    struct zero__relay *relay; /* NULL: the transport takes the device's memory */
    struct {
        void *stream, *pinned, *scalars; /* scalars: in pinned, of the last step */
    } reach; /* see reach.c; a device whose memory is the host's has none */

    struct zero__server servers[ZERO__N_SERVERS];
    _Atomic int64_t store_since_ns; /* since when a thread is in a call of a store; 0: none is */
    const char *_Atomic store_name; /* of that store's plugin */
    struct zero__disk_moved disk;

    struct zero__inside *inside;
    atomic_int left; /* a call of the transport or a store does not return: nothing is freed */
    atomic_int job_failed;
    atomic_int err; /* of the runtime; sticky; err_text is written before it */
    char err_text[1024];
    atomic_int was_told; /* the application has got the error from a call */

    struct zero__work work, timed_work; /* of this step so far; of the last in declared order */
    struct zero__op_times times;
    struct {
        int64_t after_ns, again_ns; /* how long an op waits before; when it is looked at next */
        int told;                   /* the job was told that an op waits */
    } doubt;
    struct zero__flight flight;
    struct zero__crash crash;
    struct zero__histories *history; /* NULL: the transport compares what ranks post */

    struct zero__tracker *tracker; /* tests: see track.c */
    uint32_t test_host_updates;    /* tests: as if the device had memory of its own */
    uint32_t test_skip_wait; /* tests: number of the wait to leave out, 0: none; see track.c */
};

/* ---- errors.c */

/* Like zero__run_fail(), for an op whose deadline has passed: its place, see zero__job_fail_at() */
int zero__run_fail_at(struct zero__runner *run, int culprit, int err, uint32_t place,
                      const char *op, const char *cause);
/* zero__run_is_over(), where it is asked for every op. */
static inline int zero__is_over(const struct zero__runner *run)
{
    return run->err || atomic_load_explicit(&run->job_failed, memory_order_acquire);
}

#endif
