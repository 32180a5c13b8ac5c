/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life, and of work. The end of a connection tells of a rank that died, not of one that
 * was stopped or hangs with its machine: it only falls silent. So every control thread sends an
 * empty frame several times within ZERO_HEARTBEAT seconds, rank 0 listens to all and all listen to
 * rank 0. While the ranks join only rank 0 speaks; see join.c for who listens.
 *
 * The frame says how many pieces of work with a deadline of their own the sender has ended, rank
 * 0's how many all others than the receiver have. While these go on, who waits for a rank is
 * patient: its disk may be slower than the own one, and what it does there is bounded piece by
 * piece.
 *
 * Silence is measured in looks at an empty socket, not by the clock: between two looks at most one
 * period counts. A listener that was stopped itself, or got no core, has not listened; when a whole
 * job is stopped and continued, nobody has missed anything. Nor has a rank that gets no core
 * itself, where that can be seen (starved.c): it is waited for.
 */
#include <errno.h>
#include <stdio.h>

#include "job/internal.h"
#include "machine/clock.h"

/*
 * Rank 0 is heard from the moment it has let a rank in. Who weighs an error still says that it
 * lives: others have not heard of it, and would take its silence for an end.
 */
static bool speaks(struct zero__job *job)
{
    return job->params.heartbeat_ns > 0 &&
           (job->state == ZERO__JOB_OPEN || job->state == ZERO__JOB_JOINING) &&
           zero__error_state(job) != ZERO__ERROR_DECIDED;
}

/* Ranks that wait for others to join have no thread that could speak. */
static bool listens(struct zero__job *job)
{
    return job->state == ZERO__JOB_OPEN && zero__error_state(job) == ZERO__ERROR_NONE;
}

static int64_t period_ns(const struct zero__job *job)
{
    int64_t ns = job->params.heartbeat_ns / ZERO__JOB_BEATS;
    return ns > ZERO_SECOND / 1000 ? ns : ZERO_SECOND / 1000;
}

uint32_t zero__beat_ms(const struct zero__job *job)
{
    int64_t ms = job->params.heartbeat_ns / (ZERO_SECOND / 1000);
    return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

int64_t zero__beat_deadline(struct zero__job *job)
{
    return speaks(job) ? job->beat_ns : ZERO_NEVER;
}

void zero__beat_heard(struct zero__peer *peer)
{
    peer->silent_ns = 0;
    peer->spared_ns = 0;
}

void zero__beat_message(struct zero__job *job, struct zero__peer *peer, uint64_t work)
{
    if (peer->work != work)
        atomic_store_explicit(&job->others_worked_ns, zero__now_ns(), memory_order_relaxed);
    peer->work = work;
}

uint64_t zero__beat_work(struct zero__job *job, const struct zero__peer *to)
{
    uint64_t all = atomic_load_explicit(&job->work, memory_order_relaxed);

    for (int32_t r = 1; r < job->n_peers; r++)
        if (&job->peers[r] != to)
            all += job->peers[r].work;
    return all;
}

void zero__job_worked(struct zero__job *job)
{
    atomic_fetch_add_explicit(&job->work, 1, memory_order_relaxed);
}

int64_t zero__job_patience(struct zero__job *job, int64_t deadline_ns)
{
    int64_t worked = atomic_load_explicit(&job->others_worked_ns, memory_order_relaxed);
    int64_t later = worked ? zero__deadline_after(worked, job->params.timeout_ns) : 0;

    return later > deadline_ns ? later : deadline_ns;
}

static void accuse(struct zero__job *job, int32_t rank)
{
    struct zero__job_error e;
    char cause[200];

    snprintf(cause, sizeof cause,
             "it does not answer: no sign of life for %.3g s (ZERO_HEARTBEAT); it is stopped%s",
             (double)(job->params.heartbeat_ns + job->peers[rank].spared_ns) / 1e9,
             job->peers[rank].spared_ns ? ", or has got no processor (ZERO_TIMEOUT)"
             : job->n_hosts > 1         ? ", its machine hangs, or the network to it is cut"
                                        : " or its machine hangs");
    zero__error_lost(job, &e, rank, -ETIMEDOUT, cause);
    if (rank) {
        zero__error_propose(job, &e);
        return;
    }
    job->proposal = e; /* it reads that when it goes on */
    job->peers[0].say_error = true;
    zero__error_decide(job, &e);
}

/* Without a processor it may be silent for ZERO_TIMEOUT more, which bounds all waits. */
static bool is_lost(struct zero__job *job, int32_t rank, int64_t gap_ns)
{
    struct zero__peer *p = &job->peers[rank];
    int64_t most = job->params.heartbeat_ns;
    bool doubts = p->silent_ns <= most / 2 && p->silent_ns + gap_ns > most / 2;

    p->silent_ns += gap_ns;
    if (doubts)
        zero__starved_doubt(job, rank);
    if (p->silent_ns <= most)
        return false;
    if (p->spared_ns > job->params.timeout_ns || !zero__starved(job, rank, most / 2))
        return true;
    p->spared_ns += most / 2;
    p->silent_ns = most / 2;
    return false;
}

void zero__beat(struct zero__job *job, int64_t now_ns)
{
    int64_t period = period_ns(job), gap_ns = job->looked_ns ? now_ns - job->looked_ns : 0;

    if (!speaks(job))
        return;
    gap_ns = gap_ns < period ? gap_ns : period;
    job->looked_ns = now_ns;
    for (int32_t r = 0; r < job->n_peers && listens(job); r++) {
        struct zero__peer *p = &job->peers[r];
        if (p->state != ZERO__PEER_HERE || p->mute)
            continue;
        if (is_lost(job, r, gap_ns)) {
            accuse(job, r);
            return;
        }
    }
    if (now_ns < job->beat_ns)
        return;
    for (int32_t r = 0; r < job->n_peers; r++)
        job->peers[r].say_beat = job->peers[r].state == ZERO__PEER_HERE;
    job->beat_ns = now_ns + period;
    if (listens(job))
        zero__probe(job, now_ns, period);
}
