/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of ops that a device's events tell. */
#include <errno.h>

#include "machine/clock.h"
#include "run/runner.h"

int zero__event_poll(struct zero__runner *run, uint32_t queue)
{
    struct zero__lane *l = &run->lanes[queue];
    struct zero__slot *s = zero__lane_slot(l, l->done + 1);
    int err = l->ops->event_query(l->dev, s->event);

    if (err)
        return err == -EINPROGRESS ? 0 : err;
    int64_t now_ns = zero__now_ns();
    if (run->order->cascades && !s->armed && s->start_ns < l->ended_ns)
        s->start_ns = l->ended_ns; /* it ran behind the one before it */
    l->ended_ns = now_ns;
    zero__lane_done(run, queue, now_ns);
    return 1;
}

int zero__stream_poll(struct zero__runner *run, uint32_t queue)
{
    struct zero__lane *l = &run->lanes[queue];
    int n = 1, all = 0;

    while (n > 0 && l->done < l->started) {
        n = zero__event_poll(run, queue);
        all += n > 0;
    }
    return n < 0 ? n : all;
}
