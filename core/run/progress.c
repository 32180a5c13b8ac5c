/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress thread: serves the lanes of kernels, copies and the transport (serve.c). It sleeps
 * in the transport's progress(), which wake() ends.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

#define IDLE_NS (ZERO_SECOND / 4)
/* For the job to tell why: some rank knows of an abort, maybe none of a transport's error. */
#define CANCELED_NS (2 * ZERO_SECOND)
#define BROKEN_NS (ZERO_SECOND / 2)

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
 * Bytes that the transport has counted, and those that the gather lane has yet to send: an update
 * returns before its parameters are published, and the figure of its step does not depend on how
 * far they are.
 */
uint64_t zero__wire_bytes(struct zero__runner *run)
{
    const struct zero__lane *l = &run->lanes[ZERO__Q_GATHER];

    pthread_mutex_lock(&run->lock);
    uint64_t bytes = run->wire_bytes;
    for (uint64_t o = l->done + 1; o <= l->issued; o++) {
        const struct zero__slot *s = zero__lane_slot(l, o);
        const struct zero__op *op = &s->body->ops[s->op];
        const struct zero__access *x = &s->body->accesses[op->first_access];
        uint64_t each = o <= l->started ? l->kind->unsent(run, s) : 0;
        for (uint32_t i = 0; o > l->started && op->wire_bytes && i < op->n_accesses / 2; i++)
            each += x[2 * i].bytes;
        bytes += each * (uint64_t)(run->site->ranks - 1);
    }
    pthread_mutex_unlock(&run->lock);
    return bytes;
}

/* ---- What the progress thread does beside its lanes ------------------------------------------ */

static int is_over(struct zero__runner *run)
{
    atomic_fetch_add_explicit(&run->inside->n, 1, memory_order_relaxed); /* it is not stuck */
    if (!atomic_load_explicit(&run->job_failed, memory_order_acquire))
        return 0;
    int err = zero__job_report(run->site->job);
    zero__run_fail(run, -1, err ? err : -ECANCELED, "", zero__error_text());
    return 1;
}

static int look(struct zero__runner *run, bool *heard)
{
    return run->order->look(run, heard);
}

static int prepare(struct zero__runner *run, int n)
{
    run->order->arm(run);
    zero__flight_waits(run);
    return n && run->order->cascades ? wire_count(run) : 0;
}

/* The lane whose first op has waited too long; of several, that of the smallest place. */
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
static int deadline_check(struct zero__runner *run, struct zero__blame *blame)
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
    /* 32 bits on the wire, and the count wraps: then a later op may be taken for the first. */
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

static int sleep_in_transport(struct zero__runner *run, struct zero_cqe *cqes, uint32_t max,
                              int64_t wait_ns)
{
    int n = run->site->comm_ops.progress(run->site->ctx, cqes, max, wait_ns);

    return n < 0 ? zero__unsaid(n, run->site->comm_name) : n;
}

static void wake(struct zero__runner *run)
{
    run->site->comm_ops.wake(run->site->ctx);
}

static int stray(struct zero__runner *run, const struct zero_cqe *c)
{
    return zero__fail(-EPROTO,
                      "%s reported a completion that was never posted, tag %llu: try it "
                      "with zero check comm %s",
                      run->site->comm_name, (unsigned long long)c->user, run->site->comm_name);
}

static int late(struct zero__runner *run, struct zero__blame *blame)
{
    int in_flight = 0;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        in_flight |= run->lanes[q].kind->collective && run->lanes[q].done < run->lanes[q].started;
    return in_flight ? deadline_check(run, blame) : 0;
}

static void cause_await(struct zero__runner *run, int err)
{
    int64_t deadline = zero__deadline_ns(err == -ECANCELED ? CANCELED_NS : BROKEN_NS);
    struct timespec pause = {0, 1000000};

    while (!atomic_load_explicit(&run->job_failed, memory_order_acquire) &&
           zero__now_ns() < deadline)
        nanosleep(&pause, NULL);
}

static void fail(struct zero__runner *run, int err, struct zero__blame *blame)
{
    /* A transport that leaves no sentence is named where it was called; here it is the device. */
    zero__unsaid(err, run->site->device_name);
    if (err == -EPROTO) { /* ranks differ: no rank knows which is wrong */
        blame->culprit = -1;
        zero__crash_linger(run);
    } else if (blame->heard || zero__job_follows(err)) {
        if (blame->heard && err == -ETIMEDOUT) /* no deadline of the job's: no op has waited */
            err = -ECONNRESET;
        if (zero__job_follows(err))
            blame->culprit = -1;
        cause_await(run, err);
    }
    zero__run_fail_at(run, blame->culprit, err, blame->place, "", zero__error_text());
}

const struct zero__server_kind zero__progress_kind = {.name = "progress",
                                                      .in_transport = 1,
                                                      .is_over = is_over,
                                                      .look = look,
                                                      .prepare = prepare,
                                                      .idle_ns = idle_ns,
                                                      .sleep = sleep_in_transport,
                                                      .wake = wake,
                                                      .account = wire_count,
                                                      .stray = stray,
                                                      .late = late,
                                                      .rest = zero__doubt,
                                                      .fail = fail};

void zero__progress_wake(void *run)
{
    zero__server_wake(run, ZERO__PROGRESS);
}

int zero__progress_start(struct zero__runner *run)
{
    return zero__server_start(run, ZERO__PROGRESS);
}

void zero__progress_stop(struct zero__runner *run)
{
    zero__server_stop(run, ZERO__PROGRESS);
}

int zero__progress_is_running(const struct zero__runner *run)
{
    return atomic_load(&run->servers[ZERO__PROGRESS].is_on);
}
