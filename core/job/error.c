/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first error of a job and how all ranks come to the same one: rank 0 decides. Another rank
 * sends what it saw and waits a moment for the decision; without rank 0 its own view stands.
 * A record that was handed out never changes.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "job/internal.h"
#include "machine/clock.h"
#include "machine/thread.h"

void zero__error_make(struct zero__job_error *e, int culprit, int err, int reporter, const char *op,
                      const char *cause)
{
    memset(e, 0, sizeof *e);
    e->culprit = culprit;
    e->err = err < 0 ? err : -EIO;
    e->reporter = reporter;
    snprintf(e->op, sizeof e->op, "%s", op ? op : "");
    snprintf(e->cause, sizeof e->cause, "%s", cause ? cause : "no cause given");
}

void zero__error_doing(struct zero__job *job, char *text, size_t room)
{
    *text = 0;
    if (job->say_doing)
        job->say_doing(job->say_doing_arg, text, room);
    if (!*text)
        snprintf(text, room, "%s",
                 job->posted ? "an exchange of the control channel" : "no operation then");
}

void zero__error_lost(struct zero__job *job, struct zero__job_error *e, int32_t rank, int err,
                      const char *cause)
{
    char doing[120], text[sizeof e->cause];

    if (rank && job->say_doing) {
        zero__error_doing(job, doing, sizeof doing);
        snprintf(text, sizeof text, "%s; rank 0 waited in %s", cause, doing);
        cause = text;
    }
    zero__error_make(e, rank, err, rank ? job->params.rank : -1, "", cause);
}

void zero__error_decide(struct zero__job *job, const struct zero__job_error *e)
{
    if (zero__error_state(job) == ZERO__ERROR_DECIDED)
        return;
    job->error = *e;
    atomic_store_explicit(&job->error_state, ZERO__ERROR_DECIDED, memory_order_release);
    if (job->params.rank == 0)
        for (int32_t r = 1; r < job->n_peers; r++)
            job->peers[r].say_error = job->peers[r].state == ZERO__PEER_HERE;
    pthread_cond_broadcast(&job->changed);
    zero__job_wake(job);
}

/* Rank 0 has gone, or what it says is not read any more. */
static bool is_alone(const struct zero__job *job)
{
    return job->params.rank != 0 && (job->peers[0].state != ZERO__PEER_HERE || job->peers[0].mute);
}

bool zero__job_follows(int err)
{
    return err == -ECANCELED || err == -ECONNABORTED || err == -ECONNRESET || err == -ENOTCONN ||
           err == -EPIPE || err == -EHOSTUNREACH || err == -ENETUNREACH || err == -ECONNREFUSED ||
           err == -EHOSTDOWN || err == -ENETDOWN;
}

/*
 * Of a pending deadline: all have spoken that can, so nobody is left who knows better. Who is
 * accused may be: it waits for what its accuser left out.
 */
static bool all_claimed(const struct zero__job *job)
{
    for (int32_t r = 0; r < job->n_peers; r++)
        if (!job->peers[r].claimed &&
            (r == job->params.rank || job->peers[r].state == ZERO__PEER_HERE))
            return false;
    return true;
}

/*
 * Rank 0 decides at once, but for deadlines: a rank that left an operation out goes on and soon
 * waits for those that wait for it. Who waits for what comes first is right, if it speaks up in
 * time. What only follows from another error says nothing meanwhile.
 */
static void weigh(struct zero__job *job, const struct zero__job_error *e)
{
    bool pending = zero__error_state(job) == ZERO__ERROR_PENDING;

    if (pending && e->culprit < 0 && zero__job_follows(e->err))
        return;
    if (e->err != -ETIMEDOUT || !e->place) {
        zero__error_decide(job, e);
        return;
    }
    if (e->reporter >= 0 && e->reporter < job->n_peers)
        job->peers[e->reporter].claimed = true;
    if (!pending || e->place < job->proposal.place)
        job->proposal = *e;
    if (all_claimed(job)) {
        zero__error_decide(job, &job->proposal);
    } else if (!pending) {
        job->error_deadline_ns = zero__deadline_ns(ZERO__JOB_CLAIMS_NS);
        atomic_store_explicit(&job->error_state, ZERO__ERROR_PENDING, memory_order_release);
        pthread_cond_broadcast(&job->changed);
        zero__job_wake(job);
    }
}

void zero__error_propose(struct zero__job *job, const struct zero__job_error *e)
{
    if (job->params.rank == 0 && zero__error_state(job) != ZERO__ERROR_DECIDED) {
        weigh(job, e);
        return;
    }
    if (zero__error_state(job) != ZERO__ERROR_NONE)
        return;
    job->proposal = *e;
    job->error_deadline_ns = zero__deadline_ns(ZERO__JOB_DECISION_NS);
    job->peers[0].say_error = job->peers[0].state == ZERO__PEER_HERE;
    if (is_alone(job)) {
        zero__error_decide(job, e);
        return;
    }
    atomic_store_explicit(&job->error_state, ZERO__ERROR_PENDING, memory_order_release);
    pthread_cond_broadcast(&job->changed);
    zero__job_wake(job);
}

void zero__error_expire(struct zero__job *job)
{
    if (zero__error_state(job) == ZERO__ERROR_PENDING &&
        (is_alone(job) || zero__now_ns() >= job->error_deadline_ns))
        zero__error_decide(job, &job->proposal);
}

void zero__error_failf(struct zero__job *job, int culprit, int err, const char *op, const char *fmt,
                       ...)
{
    struct zero__job_error e;
    char cause[sizeof e.cause];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(cause, sizeof cause, fmt, ap);
    va_end(ap);
    zero__error_make(&e, culprit, err, job->params.rank, op, cause);
    zero__error_propose(job, &e);
}

int zero__job_fail(struct zero__job *job, int culprit, int err, const char *op, const char *cause)
{
    return zero__job_fail_at(job, culprit, err, 0, op, cause);
}

int zero__job_fail_at(struct zero__job *job, int culprit, int err, uint32_t place, const char *op,
                      const char *cause)
{
    struct zero__job_error e;
    void (*fn)(void *) = NULL;
    void *arg = NULL;

    zero__error_make(&e, culprit, err, job->params.rank, op, cause);
    e.place = place;
    pthread_mutex_lock(&job->lock);
    if (err == -ETIMEDOUT && culprit < 0 && !place) {
        /* It may have waited for an exchange; then those are to blame whose part is missing. */
        e.place = ZERO__PLACE_LAST;
        zero__round_blame(job, &e);
    }
    zero__error_propose(job, &e);
    if (!job->threaded && job->on_error && !job->told) {
        job->told = true;
        fn = job->on_error;
        arg = job->on_error_arg;
    }
    pthread_mutex_unlock(&job->lock);
    if (fn)
        fn(arg);
    return e.err;
}

int zero__job_error(struct zero__job *job, struct zero__job_error *out)
{
    if (zero__error_state(job) == ZERO__ERROR_NONE)
        return 0;
    pthread_mutex_lock(&job->lock);
    while (zero__error_state(job) != ZERO__ERROR_DECIDED) {
        zero__cond_until(&job->changed, &job->lock, job->error_deadline_ns);
        zero__error_expire(job);
    }
    int e = job->error.err;
    if (out)
        *out = job->error;
    pthread_mutex_unlock(&job->lock);
    return e;
}

int zero__job_report(struct zero__job *job)
{
    struct zero__job_error e;

    if (!zero__job_error(job, &e))
        return 0;
    if (e.culprit < 0)
        return zero__fail(e.err, "%s%s%s", e.op, e.op[0] ? ": " : "", e.cause);
    return zero__fail(e.err, "rank %d failed%s%s: %s", e.culprit, e.op[0] ? " in " : "", e.op,
                      e.cause);
}

int zero__job_report_soon(struct zero__job *job)
{
    int64_t until = zero__deadline_ns(ZERO__JOB_NEWS_NS);

    pthread_mutex_lock(&job->lock);
    while (job->threaded && zero__error_state(job) == ZERO__ERROR_NONE)
        if (zero__cond_until(&job->changed, &job->lock, until) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&job->lock);
    return zero__job_report(job);
}

void zero__job_on_error(struct zero__job *job, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&job->lock);
    bool now = !job->threaded && fn && !job->told && zero__error_state(job) == ZERO__ERROR_DECIDED;
    job->on_error = fn;
    job->on_error_arg = arg;
    job->told |= now;
    pthread_mutex_unlock(&job->lock);
    if (now)
        fn(arg);
    else if (job->threaded)
        zero__job_wake(job);
}

void zero__job_on_lost(struct zero__job *job, void (*say)(void *arg, char *text, size_t room),
                       void *arg)
{
    pthread_mutex_lock(&job->lock);
    job->say_doing = say;
    job->say_doing_arg = arg;
    pthread_mutex_unlock(&job->lock);
}
