/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives and requests of the runtime itself, which no body lists. */
#include "run/runner.h"

/* Appends to a lane, and waits first while the lane is full. */
static int own_add(struct zero__runner *run, uint32_t queue, const struct zero__slot *own)
{
    struct zero__lane *l = &run->lanes[queue];
    uint64_t ordinals[ZERO__N_QUEUES] = {0};
    int err = 0;

    if (l->issued >= l->capacity) { /* until the op that had the slot before is done */
        ordinals[queue] = l->issued + 1 - l->capacity;
        err = zero__lanes_wait(run, ordinals, NULL);
    }
    if (err)
        return err;
    pthread_mutex_lock(&run->lock);
    struct zero__slot *s = zero__lane_slot(l, l->issued + 1);
    void *event = s->event;
    *s = *own;
    s->event = event;
    s->place = l->kind->collective ? ++run->n_placed : 0;
    l->issued++;
    pthread_mutex_unlock(&run->lock);
    zero__server_wake(run, l->kind->server);
    return 0;
}

static int lane_await(struct zero__runner *run, uint32_t queue)
{
    uint64_t ordinals[ZERO__N_QUEUES] = {0};

    ordinals[queue] = run->lanes[queue].issued;
    return zero__lanes_wait(run, ordinals, NULL);
}

int zero__coll_add(struct zero__runner *run, uint32_t queue, const struct zero_coll *c)
{
    return own_add(run, queue, &(struct zero__slot){.own.coll = *c});
}

int zero__colls_await(struct zero__runner *run, uint32_t queue)
{
    return lane_await(run, queue);
}

int zero__coll_run(struct zero__runner *run, uint32_t queue, const struct zero_coll *c)
{
    int err = zero__coll_add(run, queue, c);
    return err ? err : lane_await(run, queue);
}

int zero__io_run(struct zero__runner *run, uint32_t queue, const struct zero_io *io)
{
    int err = own_add(run, queue, &(struct zero__slot){.own.io = *io});
    return err ? err : lane_await(run, queue);
}
