/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for other ranks for a while is told to the job, with the ranks that the transport says
 * it waits for: it looks whether there still is a way to them (job/probe.c). Called in every turn
 * of the progress thread, so that it costs nothing while all goes on, and nothing at all where the
 * job does not want to know.
 */
#include "machine/clock.h"
#include "run/runner.h"

#define AGAIN_NS (ZERO_SECOND / 4)
#define MOST 8

/* The op of the lane that is first has waited for so long, since it began or moved last. */
static int waits(struct zero__runner *run, struct zero__lane *l, int64_t now_ns)
{
    const struct zero__slot *s = zero__lane_head(l);

    return s && now_ns - (s->deadline_ns - run->site->timeout_ns) >= run->doubt.after_ns;
}

void zero__doubt_begin(struct zero__runner *run)
{
    run->doubt.after_ns = zero__job_doubt_ns(run->site->job);
}

void zero__doubt(struct zero__runner *run, int moved)
{
    int32_t whom[MOST];
    int n = 0, any = 0;

    if (run->doubt.after_ns == ZERO_NEVER || (moved && !run->doubt.told))
        return;
    int64_t now_ns = zero__now_ns();
    if (!moved && now_ns < run->doubt.again_ns)
        return;
    run->doubt.again_ns = now_ns + AGAIN_NS;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        if (!waits(run, l, now_ns))
            continue;
        any = 1;
        n += zero__ranks_missing(run->site, l->comm, whom + n, (uint32_t)(MOST - n));
    }
    if (any || run->doubt.told)
        zero__job_waits(run->site->job, whom, any ? n : -1);
    run->doubt.told = any;
}
