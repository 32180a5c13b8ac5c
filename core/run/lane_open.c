/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes' streams, events and communicators. */
#include "device/host.h"
#include "run/runner.h"

/* The device that a queue works on, or NULL. */
static struct zero_device *device_of(const struct zero__runner *run, uint32_t queue)
{
    const struct zero__site *site = run->site;

    if (queue != ZERO__Q_HOST && queue != ZERO__Q_RETURN)
        return site->dev;
    if (site->host)
        return queue == ZERO__Q_HOST ? site->host : site->dev;
    return run->test_host_updates ? site->dev : NULL;
}

int zero__lanes_open(struct zero__runner *run)
{
    int err = zero__track_create(run);

    for (uint32_t q = 0; q < ZERO__N_QUEUES && !err; q++) {
        struct zero__lane *l = &run->lanes[q];
        l->ops = q == ZERO__Q_HOST ? &zero__host_device_ops : &run->site->dev_ops;
        l->dev = device_of(run, q);
        if (l->kind->server == ZERO__PROGRESS && l->kind->by_event && l->dev)
            err = l->ops->stream_create(l->dev, zero__queue_name(q), &l->stream);
    }
    return err;
}

static int lane_split(void *owner, void *lane)
{
    const struct zero__site *site = ((struct zero__runner *)owner)->site;

    return site->comm_ops.split(site->ctx, NULL, 0, site->rank, &((struct zero__lane *)lane)->comm);
}

int zero__lanes_connect(struct zero__runner *run)
{
    static const uint32_t queues[] = {ZERO__Q_GATHER, ZERO__Q_REDUCE};
    int err = 0;

    for (uint32_t i = 0; i < 2 && !err; i++)
        err = zero__inside_call(run, run->site->comm_name, lane_split, run, &run->lanes[queues[i]]);
    return err;
}

void zero__lanes_disconnect(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (run->lanes[q].comm) {
            zero__inside_begin(run->inside, 0);
            run->site->comm_ops.comm_close(run->lanes[q].comm);
            zero__inside_end(run->inside, 0);
        }
}

void zero__lanes_sync(struct zero__runner *run)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        const struct zero__lane *l = &run->lanes[q];
        if (l->stream)
            l->ops->stream_sync(l->dev, l->stream, run->site->timeout_ns);
    }
}

void zero__lanes_close(struct zero__runner *run)
{
    zero__track_free(run);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        struct zero__lane *l = &run->lanes[q];
        zero__lane_slots_free(l);
        if (l->stream)
            l->ops->stream_destroy(l->dev, l->stream);
        l->stream = NULL;
    }
}

int zero__lanes_host_updates(const struct zero__runner *run)
{
    return run->lanes[ZERO__Q_HOST].dev != NULL;
}

void *zero__lane_stream(const struct zero__runner *run, uint32_t queue)
{
    return run->lanes[queue].stream;
}
