/* SPDX-License-Identifier: Apache-2.0 */
/* The application's thread waits for ops. */
#include <errno.h>
#include <stdio.h>

#include "base/status.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "run/runner.h"

/* Waiters look this often whether the job has failed: zero__run_job_failed() may miss them. */
#define LOOK_NS (ZERO_SECOND / 4)

/* Ops that have ended so far, in all queues, and what the disk has moved. */
static uint64_t ended(const struct zero__runner *run)
{
    uint64_t n = run->disk.read + run->disk.written;

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        n += run->lanes[q].done;
    return n;
}

/* The first queue that is waited for. */
static uint32_t behind(const struct zero__runner *run, const uint64_t *ordinals)
{
    uint32_t q = 0;

    while (q < ZERO__N_QUEUES - 1 && run->lanes[q].done >= ordinals[q])
        q++;
    return q;
}

/* An op is late, and no deadline of its own has told why. */
static void late_fail(struct zero__runner *run, uint32_t queue)
{
    char why[200];

    snprintf(why, sizeof why,
             "an op in queue %s did not end within %g s (ZERO_TIMEOUT), and nothing says why: look "
             "at the output of all ranks; who is only slow needs a larger ZERO_TIMEOUT",
             zero__queue_name(queue), (double)run->site->timeout_ns / 1e9);
    zero__run_fail(run, run->site->rank, -ETIMEDOUT, "wait", why);
}

/* An update may take hours; ZERO_TIMEOUT is for something that does not move any more. */
int zero__lanes_wait(struct zero__runner *run, const uint64_t *ordinals, uint64_t *waited_ns)
{
    int64_t began = 0, deadline = 0;
    uint64_t seen = 0;
    uint32_t queue;
    struct zero__store_watch watch = {0};
    int late = 0, stuck = 0;

    pthread_mutex_lock(&run->lock);
    while (!zero__lanes_reached(run, ordinals) && !zero__is_over(run) && !late && !stuck) {
        if (!began || seen != ended(run)) {
            began = began ? began : zero__now_ns();
            deadline = zero__deadline_ns(run->site->timeout_ns + ZERO__GRACE_NS);
            seen = ended(run);
        }
        int64_t look = zero__deadline_ns(LOOK_NS), until = look < deadline ? look : deadline;
        late = zero__cond_until(&run->moved, &run->lock, until) == ETIMEDOUT && until == deadline &&
               !zero__lanes_reached(run, ordinals) && seen == ended(run);
        if (late) { /* later than the op, whose own deadline says more */
            int64_t later = zero__job_patience(run->site->job, deadline - ZERO__GRACE_NS);
            later = zero__deadline_after(later, ZERO__GRACE_NS);
            late = later <= deadline;
            deadline = later;
        }
        stuck = zero__store_stuck(run, &watch);
    }
    queue = behind(run, ordinals);
    pthread_mutex_unlock(&run->lock);
    if (began && waited_ns)
        *waited_ns += (uint64_t)(zero__now_ns() - began);
    if (stuck)
        zero__run_fail(run, run->site->rank, stuck, "", zero__error_text());
    else if (late)
        late_fail(run, queue);
    return zero__run_error(run);
}

int zero__lanes_drain(struct zero__runner *run, int but_behind, uint64_t *waited_ns)
{
    uint64_t all[ZERO__N_QUEUES];

    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        all[q] = but_behind && zero__queue_is_behind(q) ? 0 : run->lanes[q].issued;
    if (run->use_is_open) /* at the end of a runtime: the use will never end */
        all[ZERO__Q_COMPUTE] = run->use - 1;
    int err = zero__lanes_wait(run, all, waited_ns);
    zero__track_host(run, but_behind);
    return err;
}
