/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress thread: starts ops whose waits are over, moves the transport on, notes what is done.
 * It sleeps in the transport's progress(), from which zero__progress_wake() calls it back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/inside.h"
#include "engine/relay.h"
#include "engine/runtime.h"
#include "machine/clock.h"
#include "machine/thread.h"

#define IDLE_NS (ZERO_SECOND / 4)
/* For the job to tell why: of an abort somebody does know, of a transport's error maybe nobody. */
#define CANCELED_NS (2 * ZERO_SECOND)
#define BROKEN_NS (ZERO_SECOND / 2)
#define N_CQES 16

/* Whose fault an error is, as far as this rank can tell; -1: it cannot. */
struct blame {
    int culprit;
    uint32_t place; /* of the op whose deadline has passed, as the job hears it; 0: of none */
    bool heard; /* from the transport: it may follow from a peer's end, whatever it is called */
};

static int is_ready(struct zero_runtime *rt, uint32_t q, const struct slot *s)
{
    return rt->streamed ? zero__streams_ready(rt, q, s) : zero__lanes_reached(rt, s->waits);
}

/* Starts what can start; lock held. Returns how many, or an error. */
static int lanes_start(struct zero_runtime *rt, struct blame *blame)
{
    int n = 0;

    if (zero__runtime_over(rt)) /* who waits has left */
        return 0;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct lane *l = &rt->lanes[q];
        if (q == ZERO__Q_COMPUTE || zero__queue_is_disk(q))
            continue; /* the application's, the storage thread's */
        while (l->started < l->issued) {
            struct slot *s = zero__lane_slot(l, l->started + 1);
            if (!is_ready(rt, q, s) || (l->stream && l->started - l->done >= ZERO__LAUNCHED_MOST))
                break;
            int err = zero__execute(rt, q, s);
            if (err == -EAGAIN)
                break;
            if (err) {
                blame->heard = l->comm != NULL;
                return err;
            }
            l->started++;
            rt->n_begun += s->place != 0;
            n++;
            if (l->comm && !rt->streamed && !s->pending) { /* of no collectives: nothing tells */
                zero__lane_settle(rt, q);
                pthread_cond_broadcast(&rt->moved);
            }
        }
    }
    return n;
}

/* The same, again while what was started lets others start that follow it in a stream. */
static int lanes_start_all(struct zero_runtime *rt, struct blame *blame)
{
    int n = lanes_start(rt, blame), all = n;

    while (rt->streamed && n > 0) {
        n = lanes_start(rt, blame);
        all = n < 0 ? n : all + n;
    }
    return all;
}

/*
 * One completion of a collective. They come in the order of the posts of its communicator; lanes go
 * at their own pace. An op is done when all of its collectives are, and those of the ops before it.
 */
static int completion(struct zero_runtime *rt, const struct zero_cqe *c)
{
    uint64_t q = zero__user_queue(c->user), ordinal = zero__user_ordinal(c->user);
    struct lane *l = q < ZERO__N_QUEUES ? &rt->lanes[q] : NULL;

    if (!l || !l->comm || ordinal <= l->done || ordinal > l->started ||
        zero__lane_slot(l, ordinal)->pending == 0)
        return zero__fail(-EPROTO, "%s reported a completion that was never posted, tag %llu: try "
                          "it with zero check comm %s", rt->comm_name, (unsigned long long)c->user,
                          rt->comm_name);
    if (c->res < 0)
        return zero__collective_failed(rt, zero__lane_slot(l, ordinal), (int)c->res);
    if (rt->relay) {
        int err = zero__relay_came(rt, (uint32_t)q, zero__user_piece(c->user));
        return err ? zero__fail(err, "%s reported a completion twice, tag %llu: try it with zero "
                                "check comm %s", rt->comm_name, (unsigned long long)c->user,
                                rt->comm_name)
                   : 0;
    }
    zero__lane_slot(l, ordinal)->pending--;
    zero__lane_settle(rt, (uint32_t)q);
    return 0;
}

static int wire_count(struct zero_runtime *rt)
{
    uint64_t bytes, all = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        int err = rt->lanes[q].comm ? rt->comm_ops.wire_bytes(rt->lanes[q].comm, &bytes) : 0;
        if (err)
            return zero__unsaid(err, rt->comm_name);
        all += rt->lanes[q].comm ? bytes : 0;
    }
    rt->wire_bytes = all;
    return 0;
}

/*
 * What the transport has counted, and what the gather lane has yet to send: an update returns
 * before its parameters are published, and its step's figure does not depend on how far they are.
 */
uint64_t zero__wire_bytes(struct zero_runtime *rt)
{
    const struct lane *l = &rt->lanes[ZERO__Q_GATHER];

    pthread_mutex_lock(&rt->lock);
    uint64_t bytes = rt->wire_bytes;
    for (uint64_t o = l->done + 1; o <= l->issued; o++) {
        const struct slot *s = zero__lane_slot(&rt->lanes[ZERO__Q_GATHER], o);
        const struct zero__op *op = &s->body->ops[s->op];
        const struct zero__access *x = &s->body->accesses[op->first_access];
        uint32_t n = op->wire_bytes ? op->n_accesses / 2 : 0,
                 left = o <= l->started ? (rt->relay ? 0 : s->pending) : n;
        for (uint32_t i = n - left; i < n; i++) /* the sources of those not complete */
            bytes += x[2 * i].bytes * (uint64_t)(rt->ranks - 1);
    }
    if (rt->relay)
        bytes += zero__relay_left(rt) * (uint64_t)(rt->ranks - 1);
    pthread_mutex_unlock(&rt->lock);
    return bytes;
}

/* The op that has waited too long; of several, that of the smallest place. */
static struct lane *late_lane(struct zero_runtime *rt)
{
    int64_t now = zero__now_ns();
    struct lane *late = NULL;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct lane *l = &rt->lanes[q];
        const struct slot *s = zero__lane_head(l);
        if (!s || now < zero__job_patience(rt->job, s->deadline_ns))
            continue; /* other ranks may have slower disks */
        if (!late || s->place < zero__lane_head(late)->place)
            late = l;
    }
    return late;
}

/* Names the rank that an op has waited for too long. */
static int deadlines_check(struct zero_runtime *rt, struct blame *blame)
{
    struct lane *l = late_lane(rt);
    char whom[32] = "the other ranks";
    int32_t who[8];

    if (!l)
        return 0;
    const struct slot *s = zero__lane_head(l);
    int n = zero__transport_missing(rt, l->comm, who, 8);
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;
    blame->culprit = n > 0 ? who[0] : -1;
    /* It has 32 bits there, and begins anew: about that op alone a later one may seem the first. */
    blame->place = (uint32_t)(1 + (s->place - 1) % (ZERO__PLACE_LAST - 1));
    if (n > 0)
        snprintf(whom, sizeof whom, "rank %d", who[0]);
    return zero__fail(-ETIMEDOUT,
                      "%s of %s waited %g s (ZERO_TIMEOUT) for %s: look at the output there; who "
                      "is only slow needs a larger ZERO_TIMEOUT",
                      op ? zero__op_name(op->kind) : "a collective",
                      zero__slot_subject(rt, s), (double)rt->timeout_ns / 1e9, whom);
}

/*
 * How long to sleep: not past a deadline. Ranks that wait for each other, since one of them left an
 * operation out, then speak up at nearly the same time; see zero__job_fail_at().
 */
static int64_t idle_ns(struct zero_runtime *rt)
{
    int64_t now = zero__now_ns(), least = IDLE_NS;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        const struct slot *s = zero__lane_head(&rt->lanes[q]);
        int64_t left = s ? zero__job_patience(rt->job, s->deadline_ns) - now : least;
        if (left < least)
            least = left > 0 ? left : 0;
    }
    return least;
}

static int in_flight(const struct zero_runtime *rt)
{
    return rt->lanes[ZERO__Q_GATHER].done < rt->lanes[ZERO__Q_GATHER].started ||
           rt->lanes[ZERO__Q_REDUCE].done < rt->lanes[ZERO__Q_REDUCE].started;
}

/* One turn: start, let the transport work, note. */
static int turn(struct zero_runtime *rt, struct blame *blame)
{
    struct zero_cqe cqes[N_CQES];
    int started, moved = 0, err = 0;

    pthread_mutex_lock(&rt->lock);
    started = lanes_start_all(rt, blame);
    for (int again = started >= 0; again;) {
        int n = zero__streams_look(rt, &blame->heard);
        if (n < 0) {
            started = n;
            break;
        }
        moved += n;
        again = n > 0;
        int more = again ? lanes_start_all(rt, blame) : 0;
        started = more < 0 ? more : started + more;
        if (more < 0)
            break;
    }
    if (rt->streamed) {
        zero__streams_arm(rt);
        if (started > 0 && (err = wire_count(rt)))
            started = err;
    }
    zero__flight_waits(rt);
    if (moved)
        pthread_cond_broadcast(&rt->moved);
    pthread_mutex_unlock(&rt->lock);
    if (moved)
        zero__storage_wake(rt);
    if (started < 0)
        return started;

    /* A device event that comes now wakes the transport up: wake() is remembered. */
    int n = rt->comm_ops.progress(rt->ctx, cqes, N_CQES, moved || started ? 0 : idle_ns(rt));
    if (n < 0) {
        blame->heard = true;
        return zero__unsaid(n, rt->comm_name);
    }
    if (n > 0) {
        pthread_mutex_lock(&rt->lock);
        for (int i = 0; i < n && !err; i++)
            err = completion(rt, &cqes[i]);
        blame->heard = err != 0;
        if (!err)
            err = wire_count(rt);
        pthread_cond_broadcast(&rt->moved);
        pthread_mutex_unlock(&rt->lock);
    } else if (in_flight(rt)) {
        err = deadlines_check(rt, blame);
    }
    zero__doubt(rt, n > 0 || moved);
    return err;
}

static void cause_await(struct zero_runtime *rt, int err)
{
    int64_t deadline = zero__deadline_ns(err == -ECANCELED ? CANCELED_NS : BROKEN_NS);
    struct timespec pause = {0, 1000000};

    while (!atomic_load_explicit(&rt->job_failed, memory_order_acquire) &&
           zero__now_ns() < deadline)
        nanosleep(&pause, NULL);
}

static void *progress_main(void *arg)
{
    struct zero_runtime *rt = arg;

    atomic_store(&rt->progress_thread, (int)gettid());
    zero__unsay();
    for (;;) {
        atomic_fetch_add_explicit(&rt->inside->n, 1, memory_order_relaxed); /* it is not stuck */
        pthread_mutex_lock(&rt->lock);
        int stop = rt->stop, failed = rt->err != 0;
        while (!stop && failed) { /* nothing more to do than to be joined */
            pthread_cond_wait(&rt->moved, &rt->lock);
            stop = rt->stop;
        }
        pthread_mutex_unlock(&rt->lock);
        if (stop)
            return NULL;
        if (atomic_load_explicit(&rt->job_failed, memory_order_acquire)) {
            int err = zero__job_report(rt->job);
            zero__runtime_fail(rt, -1, err ? err : -ECANCELED, "", zero__error_text());
            continue;
        }
        struct blame blame = {.culprit = rt->rank};
        int err = turn(rt, &blame);
        if (err) /* a transport that says nothing is named where it was called */
            zero__unsaid(err, rt->device_name);
        if (err == -EPROTO) { /* ranks differ: who is wrong, nobody knows */
            blame.culprit = -1;
            zero__crash_linger(rt);
        } else if (blame.heard || zero__job_follows(err)) {
            if (blame.heard && err == -ETIMEDOUT) /* no deadline of the job's: nobody has waited */
                err = -ECONNRESET;
            if (zero__job_follows(err))
                blame.culprit = -1;
            cause_await(rt, err);
        }
        if (err)
            zero__runtime_fail_at(rt, blame.culprit, err, blame.place, "", zero__error_text());
    }
}

void zero__progress_wake(void *arg)
{
    struct zero_runtime *rt = arg;

    if (rt->ctx)
        rt->comm_ops.wake(rt->ctx);
    zero__storage_wake(rt);
}

int zero__progress_start(struct zero_runtime *rt)
{
    rt->stop = 0;
    int err = zero__thread_create(&rt->progress, NULL, progress_main, rt);
    if (err)
        return zero__fail(-err, "cannot start the progress thread: %s" ZERO__THREAD_LIMITS,
                          strerror(err));
    rt->progress_runs = 1;
    return 0;
}

void zero__progress_stop(struct zero_runtime *rt)
{
    if (!rt->progress_runs)
        return;
    pthread_mutex_lock(&rt->lock);
    rt->stop = 1;
    pthread_cond_broadcast(&rt->moved);
    pthread_mutex_unlock(&rt->lock);
    zero__progress_wake(rt);
    int before = zero__inside_begin(rt->inside, atomic_load(&rt->progress_thread));
    pthread_join(rt->progress, NULL);
    zero__inside_end(rt->inside, before);
    rt->progress_runs = 0;
}
