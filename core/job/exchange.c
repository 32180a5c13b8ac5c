/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling side of exchanges: post a part, wait for the result with a deadline. The control
 * thread does all sending and receiving, so posting never blocks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "job/exchange.h"
#include "job/internal.h"
#include "machine/clock.h"
#include "machine/thread.h"

int zero__oob_post(void *ctx, const void *src, uint32_t len)
{
    struct zero__job *job = ctx;

    if (len > ZERO__JOB_EXCHANGE_BYTES)
        return zero__fail(-EMSGSIZE,
                          "job: an exchange of %u bytes per rank: at most %d are "
                          "allowed, use several",
                          len, ZERO__JOB_EXCHANGE_BYTES);
    if (len && !src)
        return zero__fail(-EINVAL,
                          "job: an exchange of %u bytes per rank from NULL: say where they are",
                          len);
    pthread_mutex_lock(&job->lock);
    bool busy = job->posted && zero__error_state(job) == ZERO__ERROR_NONE;
    if (!busy && zero__error_state(job) == ZERO__ERROR_NONE)
        zero__round_post(job, job->seq + 1, src, len);
    pthread_mutex_unlock(&job->lock);
    if (busy)
        return zero__fail(-EBUSY, "job: an exchange is posted while another one is under way: "
                                  "wait for the first");
    return zero__job_report(job);
}

/* The result to dst; the place is free afterwards. Lock held. */
static void collect(struct zero__job *job, void *dst)
{
    struct zero__round *r = zero__round_of(job, job->seq);
    if (r->total && dst)
        memcpy(dst, r->data, r->total);
    job->posted = false;
}

static int wait_result(struct zero__job *job, void *dst, int64_t deadline_ns)
{
    pthread_mutex_lock(&job->lock);
    struct zero__round *r = zero__round_of(job, job->seq);
    while (!r->done && zero__error_state(job) == ZERO__ERROR_NONE) {
        if (zero__cond_until(&job->changed, &job->lock, deadline_ns) != ETIMEDOUT)
            continue;
        int64_t later = zero__job_patience(job, deadline_ns);
        if (later == deadline_ns)
            break;
        deadline_ns = later;
    }
    bool done = r->done;
    if (done)
        collect(job, dst);
    else if (zero__error_state(job) == ZERO__ERROR_NONE) {
        struct zero__job_error e;
        char cause[200];
        snprintf(cause, sizeof cause,
                 "no answer from the other ranks within %.3g s (ZERO_TIMEOUT): look at their "
                 "output; who is only slow needs a larger ZERO_TIMEOUT",
                 (double)job->params.timeout_ns / 1e9);
        zero__error_make(&e, -1, -ETIMEDOUT, job->params.rank, "exchange", cause);
        e.place = ZERO__PLACE_LAST;
        zero__round_blame(job, &e);
        zero__error_propose(job, &e);
    }
    pthread_mutex_unlock(&job->lock);
    return done ? 0 : zero__job_report(job);
}

int zero__job_allgather(struct zero__job *job, const void *src, uint32_t len, void *dst)
{
    int64_t deadline = zero__deadline_ns(job->params.timeout_ns);
    int e = zero__oob_post(job, src, len);
    return e ? e : wait_result(job, dst, deadline);
}

int zero__oob_test(void *ctx, void *dst)
{
    struct zero__job *job = ctx;

    pthread_mutex_lock(&job->lock);
    bool posted = job->posted, done = posted && zero__round_of(job, job->seq)->done;
    if (done)
        collect(job, dst);
    pthread_mutex_unlock(&job->lock);
    if (done)
        return 0;
    int e = zero__job_report(job);
    if (e)
        return e;
    if (!posted)
        return zero__fail(-EINVAL, "job: test of an exchange that was not posted");
    return -EINPROGRESS;
}
