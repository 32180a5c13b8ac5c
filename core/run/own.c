/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives and requests of the runtime itself, which no body lists: one at a time. */
#include "run/runner.h"

static int own_run(struct zero__runner *run, uint32_t queue, const struct zero__slot *own)
{
    struct zero__lane *l = &run->lanes[queue];
    uint64_t ordinals[ZERO__N_QUEUES] = {0};

    pthread_mutex_lock(&run->lock);
    struct zero__slot *s = zero__lane_slot(l, l->issued + 1);
    void *event = s->event;
    *s = *own;
    s->event = event;
    s->place = l->comm ? ++run->n_placed : 0;
    ordinals[queue] = ++l->issued;
    pthread_mutex_unlock(&run->lock);
    if (zero__queue_is_disk(queue)) {
        const struct zero__tier_store *disk = &run->site->tiers[ZERO__T_DISK];
        disk->ops.wake(disk->store);
    } else {
        zero__progress_wake(run);
    }
    return zero__lanes_wait(run, ordinals, NULL);
}

int zero__coll_run(struct zero__runner *run, uint32_t queue, const struct zero_coll *c)
{
    return own_run(run, queue, &(struct zero__slot){.own.coll = *c});
}

int zero__io_run(struct zero__runner *run, uint32_t queue, const struct zero_io *io)
{
    return own_run(run, queue, &(struct zero__slot){.own.io = *io});
}
