/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for other ranks for a while is told to the job, with the ranks that the transport says
 * it waits for: it looks whether there still is a way to them (job/probe.c). Called in every turn
 * of the progress thread, so that it costs nothing while all goes on, and nothing at all where the
 * job does not want to know.
 */
#include "engine/runtime.h"
#include "machine/clock.h"

#define AGAIN_NS (ZERO_SECOND / 4)
#define MOST 8

/* The op of the lane that is first has waited for so long, since it began or moved last. */
static int waits(struct zero_runtime *rt, struct lane *l, int64_t now_ns)
{
    const struct slot *s = zero__lane_head(l);

    return s && now_ns - (s->deadline_ns - rt->timeout_ns) >= rt->doubt.after_ns;
}

void zero__doubt_begin(struct zero_runtime *rt)
{
    rt->doubt.after_ns = zero__job_doubt_ns(rt->job);
}

void zero__doubt(struct zero_runtime *rt, int moved)
{
    int32_t whom[MOST];
    int n = 0, any = 0;

    if (rt->doubt.after_ns == ZERO_NEVER || (moved && !rt->doubt.told))
        return;
    int64_t now_ns = zero__now_ns();
    if (!moved && now_ns < rt->doubt.again_ns)
        return;
    rt->doubt.again_ns = now_ns + AGAIN_NS;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct lane *l = &rt->lanes[q];
        if (!waits(rt, l, now_ns))
            continue;
        any = 1;
        n += zero__transport_missing(rt, l->comm, whom + n, (uint32_t)(MOST - n));
    }
    if (any || rt->doubt.told)
        zero__job_waits(rt->job, whom, any ? n : -1);
    rt->doubt.told = any;
}
