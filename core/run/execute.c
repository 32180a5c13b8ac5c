/* SPDX-License-Identifier: Apache-2.0 */
/* Starts one op: posts its collectives, or launches its kernels. */
#include <errno.h>

#include "machine/clock.h"
#include "run/relay.h"
#include "run/runner.h"

static int transport(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    struct zero_coll colls[ZERO__MAX_COLLS];
    struct zero__lane *l = &run->lanes[queue];
    uint32_t n = zero__collectives(run, s, colls);

    if (run->relay)
        return zero__relay_start(run, queue, s, colls, n);
    for (uint32_t i = 0; i < n; i++) {
        colls[i].group = queue;
        colls[i].sequence = l->sequence + 1 + i;
        colls[i].user = zero__user(queue, l->started + 1, 0);
    }
    s->pending = run->streamed ? 0 : n; /* of a stream no completion comes but its event */
    s->n_colls = n;
    s->sequence = l->sequence + 1;
    s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
    int err = run->site->comm_ops.post(l->comm, colls, n, l->stream);
    if (err == -EAGAIN) /* no room now */
        return err;
    if (err) /* maybe the peers' were seen to differ before this rank posted its own */
        return zero__collective_failed(run, s, err);
    for (uint32_t i = 0; i < n; i++)
        zero__flight_posted(run, queue, &colls[i]);
    l->sequence += n;
    return 0;
}

int zero__execute(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    const struct zero__lane *l = &run->lanes[queue];
    int err = run->streamed && !s->follows ? zero__streams_wait(run, queue, s) : 0;

    if (err)
        return err;
    s->follows = 1; /* and not once more where the transport has no room now */
    s->start_ns = zero__now_ns();
    s->armed = !run->streamed;
    zero__track_start(run, queue, s, run->lanes[queue].started + 1);
    err = zero__queue_is_stream(queue) ? zero__execute_kernels(run, &s->body->ops[s->op], s)
                                       : transport(run, queue, s);
    return err || !l->stream ? err : l->ops->event_record(l->dev, s->event, l->stream);
}
