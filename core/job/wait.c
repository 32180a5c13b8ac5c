/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 waits for the others, and says so; where some do not come, all hear why. */
#include "job/job.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "job/internal.h"
#include "machine/clock.h"
#include "machine/thread.h"

#define PATIENCE_NS (5 * ZERO_SECOND) /* then the missing ranks are named in the log */

static bool is_absent(struct zero__job *job, int32_t rank)
{
    return rank && job->peers[rank].state == ZERO__PEER_ABSENT;
}

/* Ranks that come a moment later hear why nobody may join, instead of looking for rank 0. */
static void explain(struct zero__job *job)
{
    int64_t deadline = zero__deadline_ns(ZERO__JOB_EXPLAIN_NS);

    while (job->n_joined + job->n_refused < job->params.ranks)
        if (zero__cond_until(&job->changed, &job->lock, deadline) == ETIMEDOUT)
            return;
}

/* Somebody who looks at a silent terminal learns whom it waits for. Lock held. */
static void say_who_is_missing(struct zero__job *job)
{
    char ranks[160], where[ZERO__RENDEZVOUS_TEXT];

    zero__ranks_text(job, is_absent, ranks, sizeof ranks);
    zero__rendezvous_text(job, where, sizeof where);
    pthread_mutex_unlock(&job->lock);
    zero__log(job->params.log, ZERO_LOG_WARN, "job", "still waiting for rank %s of %d; %s", ranks,
              job->params.ranks, where);
    pthread_mutex_lock(&job->lock);
}

static void refuse_all(struct zero__job *job)
{
    char ranks[160], where[ZERO__RENDEZVOUS_TEXT], denied[80] = "", unlike[80] = "";

    zero__rendezvous_text(job, where, sizeof where);
    if (job->n_unlike)
        snprintf(unlike, sizeof unlike, "; connections %s a secret, which rank 0 %s: %d",
                 job->params.secret.known ? "without" : "with",
                 job->params.secret.known ? "has" : "does not have", job->n_unlike);
    if (job->n_denied)
        snprintf(denied, sizeof denied,
                 "; connections with another secret that were turned away: %d", job->n_denied);
    zero__ranks_text(job, is_absent, ranks, sizeof ranks);
    zero__job_refuse(job, -ETIMEDOUT,
                     "job %s: %d of %d ranks did not come within %.3g s (rank %s): they were not "
                     "started, have ended, or have another job or model name; look at their "
                     "output (ZERO_JOIN_TIMEOUT waits longer); %s%s%s",
                     job->params.key, job->params.ranks - job->n_joined, job->params.ranks,
                     (double)job->params.join_ns / 1e9, ranks, where, denied, unlike);
}

int zero__job_wait(struct zero__job *job)
{
    int64_t deadline = job->join_deadline_ns, patience = zero__deadline_ns(PATIENCE_NS);

    pthread_mutex_lock(&job->lock);
    while (job->state == ZERO__JOB_JOINING) {
        int64_t until = patience < deadline ? patience : deadline;
        if (zero__cond_until(&job->changed, &job->lock, until) != ETIMEDOUT ||
            job->state != ZERO__JOB_JOINING)
            continue;
        if (until == deadline) {
            refuse_all(job);
        } else {
            say_who_is_missing(job);
            patience = ZERO_NEVER;
        }
    }
    bool open = job->state == ZERO__JOB_OPEN;
    if (!open && job->refusal.err != -ETIMEDOUT)
        explain(job);
    pthread_mutex_unlock(&job->lock);
    return open ? 0 : zero__fail(job->refusal.err, "%s", job->refusal.text);
}
