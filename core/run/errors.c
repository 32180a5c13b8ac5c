/* SPDX-License-Identifier: Apache-2.0 */
/* How a runtime fails: once, for the first reason, on all ranks with the same record. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/status.h"
#include "run/runner.h"

int zero__run_fail_at(struct zero__runner *run, int culprit, int err, uint32_t place,
                      const char *op, const char *cause)
{
    const struct zero__site *site = run->site;

    /* The job first: waiters that wake up below report what the job decides. */
    if (site->job)
        zero__job_fail_at(site->job, culprit, err, place, op, cause);
    pthread_mutex_lock(&run->lock);
    if (!run->err) {
        snprintf(run->err_text, sizeof run->err_text, "%s%s%s", op, *op ? ": " : "", cause);
        run->err = err;
    }
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    /*
     * No abort after a deadline of this rank: the deadlines of its peers tell rank 0 who is to
     * blame, and rank 0's decision aborts on all ranks, see zero__run_job_failed().
     */
    if (site->ctx && !(site->job && err == -ETIMEDOUT))
        site->comm_ops.abort(site->ctx);
    return err;
}

int zero__run_fail(struct zero__runner *run, int culprit, int err, const char *op,
                   const char *cause)
{
    return zero__run_fail_at(run, culprit, err, 0, op, cause);
}

int zero__run_fail_alone(struct zero__runner *run, int err, const char *op)
{
    if (err && !zero__is_over(run))
        zero__run_fail(run, run->site->rank, err, op, zero__error_text());
    return err;
}

int zero__run_is_over(const struct zero__runner *run)
{
    return zero__is_over(run);
}

int zero__run_status(const struct zero__runner *run)
{
    int err = 0;

    if (zero__is_over(run))
        err = zero__job_report(run->site->job); /* the job's decision before this rank's view */
    if (!err && run->err)
        err = zero__fail(run->err, "%s", run->err_text);
    return err;
}

int zero__run_error(struct zero__runner *run)
{
    const int err = zero__run_status(run);

    if (err) {
        atomic_store_explicit(&run->was_told, 1, memory_order_relaxed);
        zero__crash_report(run);
    }
    return err;
}

int zero__run_was_told(const struct zero__runner *run)
{
    return atomic_load_explicit(&run->was_told, memory_order_relaxed);
}

int zero__run_cause(struct zero__runner *run, int err)
{
    const struct zero__site *site = run->site;
    int cause = 0;

    if (site->job && zero__job_follows(err))
        cause = zero__job_report_soon(site->job);
    /* A rank that has waited too long for the others learns which rank's part is missing. */
    if (site->job && site->ranks > 1 && err == -ETIMEDOUT) {
        zero__job_fail(site->job, -1, err, "", zero__error_text());
        cause = zero__job_report(site->job);
    }
    return cause ? cause : err;
}

/*
 * Waiters return although the progress thread may be stuck in the transport. The thread that holds
 * the lock may be stuck, too, or starved, and the job's control thread has heartbeats to send: it
 * does not wait for the lock for long. A waiter that is just about to sleep misses the signal then,
 * and looks for itself, see zero__lanes_wait().
 */
static void waiters_wake(struct zero__runner *run)
{
    const struct timespec pause = {0, 1000000};
    int held = !pthread_mutex_trylock(&run->lock);

    for (int i = 0; i < 10 && !held; i++) {
        nanosleep(&pause, NULL);
        held = !pthread_mutex_trylock(&run->lock);
    }
    pthread_cond_broadcast(&run->moved);
    if (held)
        pthread_mutex_unlock(&run->lock);
}

void zero__run_job_failed(void *arg)
{
    struct zero__runner *run = arg;
    const struct zero__site *site = run->site;

    atomic_store_explicit(&run->job_failed, 1, memory_order_release);
    waiters_wake(run);
    if (site->ctx) {
        site->comm_ops.abort(site->ctx);
        site->comm_ops.wake(site->ctx);
    }
}
