/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 admits no more ranks, and tells all that have come why. */
#include <stdarg.h>
#include <stdio.h>

#include "job/internal.h"

void zero__job_refuse(struct zero__job *job, int err, const char *fmt, ...)
{
    va_list ap;

    if (job->state != ZERO__JOB_JOINING)
        return;
    va_start(ap, fmt);
    vsnprintf(job->refusal.text, sizeof job->refusal.text, fmt, ap);
    va_end(ap);
    job->refusal.err = err;
    job->state = ZERO__JOB_REFUSED;
    for (int32_t r = 1; r < job->n_peers; r++)
        job->peers[r].say_refused = job->peers[r].state == ZERO__PEER_HERE;
    pthread_cond_broadcast(&job->changed);
    zero__job_wake(job);
}
