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
#include "machine/clock.h"
#include "machine/thread.h"
#include "run/inside.h"
#include "run/relay.h"
#include "run/runner.h"

#define IDLE_NS (ZERO_SECOND / 4)
/* For the job to tell why: of an abort somebody does know, of a transport's error maybe nobody. */
#define CANCELED_NS (2 * ZERO_SECOND)
#define BROKEN_NS (ZERO_SECOND / 2)
#define N_CQES 16

/* Whose fault an error is, as far as this rank can tell; -1: it cannot. */
struct blame {
    int culprit;
    uint32_t place; /* of the op whose deadline has passed, as the job hears it; 0: of none */
    bool heard;     /* from the transport: it may follow from a peer's end, whatever it is called */
};

static int is_ready(struct zero__runner *run, uint32_t q, const struct zero__slot *s)
{
    return run->streamed ? zero__streams_ready(run, q, s) : zero__lanes_reached(run, s->waits);
}

/* Starts what can start; lock held. Returns how many, or an error. */
static int lanes_start(struct zero__runner *run, struct blame *blame)
{
    int n = 0;

    if (zero__is_over(run)) /* who waits has left */
        return 0;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        if (q == ZERO__Q_COMPUTE || zero__queue_is_disk(q))
            continue; /* the application's, the storage thread's */
        while (l->started < l->issued) {
            struct zero__slot *s = zero__lane_slot(l, l->started + 1);
            if (!is_ready(run, q, s) || (l->stream && l->started - l->done >= ZERO__LAUNCHED_MOST))
                break;
            int err = zero__execute(run, q, s);
            if (err == -EAGAIN)
                break;
            if (err) {
                blame->heard = l->comm != NULL;
                return err;
            }
            l->started++;
            run->n_begun += s->place != 0;
            n++;
            if (l->comm && !run->streamed && !s->pending) { /* of no collectives: nothing tells */
                zero__lane_settle(run, q);
                pthread_cond_broadcast(&run->moved);
            }
        }
    }
    return n;
}

/* The same, again while what was started lets others start that follow it in a stream. */
static int lanes_start_all(struct zero__runner *run, struct blame *blame)
{
    int n = lanes_start(run, blame), all = n;

    while (run->streamed && n > 0) {
        n = lanes_start(run, blame);
        all = n < 0 ? n : all + n;
    }
    return all;
}

/*
 * One completion of a collective. They come in the order of the posts of its communicator; lanes go
 * at their own pace. An op is done when all of its collectives are, and those of the ops before it.
 */
static int completion(struct zero__runner *run, const struct zero_cqe *c)
{
    uint64_t q = zero__user_queue(c->user), ordinal = zero__user_ordinal(c->user);
    struct zero__lane *l = q < ZERO__N_QUEUES ? &run->lanes[q] : NULL;

    if (!l || !l->comm || ordinal <= l->done || ordinal > l->started ||
        zero__lane_slot(l, ordinal)->pending == 0)
        return zero__fail(-EPROTO,
                          "%s reported a completion that was never posted, tag %llu: try "
                          "it with zero check comm %s",
                          run->site->comm_name, (unsigned long long)c->user, run->site->comm_name);
    if (c->res < 0)
        return zero__collective_failed(run, zero__lane_slot(l, ordinal), (int)c->res);
    if (run->relay) {
        int err = zero__relay_came(run, (uint32_t)q, zero__user_piece(c->user));
        return err ? zero__fail(err,
                                "%s reported a completion twice, tag %llu: try it with zero "
                                "check comm %s",
                                run->site->comm_name, (unsigned long long)c->user,
                                run->site->comm_name)
                   : 0;
    }
    zero__lane_slot(l, ordinal)->pending--;
    zero__lane_settle(run, (uint32_t)q);
    return 0;
}

static int wire_count(struct zero__runner *run)
{
    uint64_t bytes, all = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        int err =
            run->lanes[q].comm ? run->site->comm_ops.wire_bytes(run->lanes[q].comm, &bytes) : 0;
        if (err)
            return zero__unsaid(err, run->site->comm_name);
        all += run->lanes[q].comm ? bytes : 0;
    }
    run->wire_bytes = all;
    return 0;
}

/*
 * What the transport has counted, and what the gather lane has yet to send: an update returns
 * before its parameters are published, and its step's figure does not depend on how far they are.
 */
uint64_t zero__wire_bytes(struct zero__runner *run)
{
    const struct zero__lane *l = &run->lanes[ZERO__Q_GATHER];

    pthread_mutex_lock(&run->lock);
    uint64_t bytes = run->wire_bytes;
    for (uint64_t o = l->done + 1; o <= l->issued; o++) {
        const struct zero__slot *s = zero__lane_slot(&run->lanes[ZERO__Q_GATHER], o);
        const struct zero__op *op = &s->body->ops[s->op];
        const struct zero__access *x = &s->body->accesses[op->first_access];
        uint32_t n = op->wire_bytes ? op->n_accesses / 2 : 0,
                 left = o <= l->started ? (run->relay ? 0 : s->pending) : n;
        for (uint32_t i = n - left; i < n; i++) /* the sources of those not complete */
            bytes += x[2 * i].bytes * (uint64_t)(run->site->ranks - 1);
    }
    if (run->relay)
        bytes += zero__relay_left(run) * (uint64_t)(run->site->ranks - 1);
    pthread_mutex_unlock(&run->lock);
    return bytes;
}

/* The op that has waited too long; of several, that of the smallest place. */
static struct zero__lane *late_lane(struct zero__runner *run)
{
    int64_t now = zero__now_ns();
    struct zero__lane *late = NULL;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        const struct zero__slot *s = zero__lane_head(l);
        if (!s || now < zero__job_patience(run->site->job, s->deadline_ns))
            continue; /* other ranks may have slower disks */
        if (!late || s->place < zero__lane_head(late)->place)
            late = l;
    }
    return late;
}

/* Names the rank that an op has waited for too long. */
static int deadlines_check(struct zero__runner *run, struct blame *blame)
{
    struct zero__lane *l = late_lane(run);
    char whom[32] = "the other ranks";
    int32_t who[8];

    if (!l)
        return 0;
    const struct zero__slot *s = zero__lane_head(l);
    int n = zero__ranks_missing(run->site, l->comm, who, 8);
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;
    blame->culprit = n > 0 ? who[0] : -1;
    /* It has 32 bits there, and begins anew: about that op alone a later one may seem the first. */
    blame->place = (uint32_t)(1 + (s->place - 1) % (ZERO__PLACE_LAST - 1));
    if (n > 0)
        snprintf(whom, sizeof whom, "rank %d", who[0]);
    return zero__fail(-ETIMEDOUT,
                      "%s of %s waited %g s (ZERO_TIMEOUT) for %s: look at the output there; who "
                      "is only slow needs a larger ZERO_TIMEOUT",
                      op ? zero__op_name(op->kind) : "a collective", zero__slot_subject(run, s),
                      (double)run->site->timeout_ns / 1e9, whom);
}

/*
 * How long to sleep: not past a deadline. Ranks that wait for each other, since one of them left an
 * operation out, then speak up at nearly the same time; see zero__job_fail_at().
 */
static int64_t idle_ns(struct zero__runner *run)
{
    int64_t now = zero__now_ns(), least = IDLE_NS;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        const struct zero__slot *s = zero__lane_head(&run->lanes[q]);
        int64_t left = s ? zero__job_patience(run->site->job, s->deadline_ns) - now : least;
        if (left < least)
            least = left > 0 ? left : 0;
    }
    return least;
}

static int in_flight(const struct zero__runner *run)
{
    return run->lanes[ZERO__Q_GATHER].done < run->lanes[ZERO__Q_GATHER].started ||
           run->lanes[ZERO__Q_REDUCE].done < run->lanes[ZERO__Q_REDUCE].started;
}

/* One turn: start, let the transport work, note. */
static int turn(struct zero__runner *run, struct blame *blame)
{
    struct zero_cqe cqes[N_CQES];
    int started, moved = 0, err = 0;

    pthread_mutex_lock(&run->lock);
    started = lanes_start_all(run, blame);
    for (int again = started >= 0; again;) {
        int n = zero__streams_look(run, &blame->heard);
        if (n < 0) {
            started = n;
            break;
        }
        moved += n;
        again = n > 0;
        int more = again ? lanes_start_all(run, blame) : 0;
        started = more < 0 ? more : started + more;
        if (more < 0)
            break;
    }
    if (run->streamed) {
        zero__streams_arm(run);
        if (started > 0 && (err = wire_count(run)))
            started = err;
    }
    zero__flight_waits(run);
    if (moved)
        pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    if (moved)
        zero__storage_wake(run);
    if (started < 0)
        return started;

    /* A device event that comes now wakes the transport up: wake() is remembered. */
    int n = run->site->comm_ops.progress(run->site->ctx, cqes, N_CQES,
                                         moved || started ? 0 : idle_ns(run));
    if (n < 0) {
        blame->heard = true;
        return zero__unsaid(n, run->site->comm_name);
    }
    if (n > 0) {
        pthread_mutex_lock(&run->lock);
        for (int i = 0; i < n && !err; i++)
            err = completion(run, &cqes[i]);
        blame->heard = err != 0;
        if (!err)
            err = wire_count(run);
        pthread_cond_broadcast(&run->moved);
        pthread_mutex_unlock(&run->lock);
    } else if (in_flight(run)) {
        err = deadlines_check(run, blame);
    }
    zero__doubt(run, n > 0 || moved);
    return err;
}

static void cause_await(struct zero__runner *run, int err)
{
    int64_t deadline = zero__deadline_ns(err == -ECANCELED ? CANCELED_NS : BROKEN_NS);
    struct timespec pause = {0, 1000000};

    while (!atomic_load_explicit(&run->job_failed, memory_order_acquire) &&
           zero__now_ns() < deadline)
        nanosleep(&pause, NULL);
}

static void *progress_main(void *arg)
{
    struct zero__runner *run = arg;

    atomic_store(&run->progress_thread, (int)gettid());
    zero__unsay();
    for (;;) {
        atomic_fetch_add_explicit(&run->inside->n, 1, memory_order_relaxed); /* it is not stuck */
        pthread_mutex_lock(&run->lock);
        int stop = run->stop, failed = run->err != 0;
        while (!stop && failed) { /* nothing more to do than to be joined */
            pthread_cond_wait(&run->moved, &run->lock);
            stop = run->stop;
        }
        pthread_mutex_unlock(&run->lock);
        if (stop)
            return NULL;
        if (atomic_load_explicit(&run->job_failed, memory_order_acquire)) {
            int err = zero__job_report(run->site->job);
            zero__run_fail(run, -1, err ? err : -ECANCELED, "", zero__error_text());
            continue;
        }
        struct blame blame = {.culprit = run->site->rank};
        int err = turn(run, &blame);
        if (err) /* a transport that says nothing is named where it was called */
            zero__unsaid(err, run->site->device_name);
        if (err == -EPROTO) { /* ranks differ: who is wrong, nobody knows */
            blame.culprit = -1;
            zero__crash_linger(run);
        } else if (blame.heard || zero__job_follows(err)) {
            if (blame.heard && err == -ETIMEDOUT) /* no deadline of the job's: nobody has waited */
                err = -ECONNRESET;
            if (zero__job_follows(err))
                blame.culprit = -1;
            cause_await(run, err);
        }
        if (err)
            zero__run_fail_at(run, blame.culprit, err, blame.place, "", zero__error_text());
    }
}

void zero__progress_wake(void *arg)
{
    struct zero__runner *run = arg;

    if (run->site->ctx)
        run->site->comm_ops.wake(run->site->ctx);
    zero__storage_wake(run);
}

int zero__progress_start(struct zero__runner *run)
{
    run->stop = 0;
    int err = zero__thread_create(&run->progress, NULL, progress_main, run);
    if (err)
        return zero__fail(-err, "cannot start the progress thread: %s" ZERO__THREAD_LIMITS,
                          strerror(err));
    run->progress_runs = 1;
    return 0;
}

void zero__progress_stop(struct zero__runner *run)
{
    if (!run->progress_runs)
        return;
    pthread_mutex_lock(&run->lock);
    run->stop = 1;
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    zero__progress_wake(run);
    int before = zero__inside_begin(run->inside, atomic_load(&run->progress_thread));
    pthread_join(run->progress, NULL);
    zero__inside_end(run->inside, before);
    run->progress_runs = 0;
}

int zero__progress_is_running(const struct zero__runner *run)
{
    return run->progress_runs;
}
