/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application's lane: uses of units. The application's thread starts and ends them; a use that
 * ends on a stream is done when the stream gets there.
 */
#include <string.h>

#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

/*
 * Regions share bytes as if uses were over one after another, whatever their streams: the stream
 * waits for the uses from ordinal `first` on.
 */
static int uses_order(struct zero__runner *run, void *stream, uint64_t first)
{
    const struct zero__site *site = run->site;
    struct zero__lane *l = &run->lanes[ZERO__Q_COMPUTE];
    int err = 0;

    for (uint64_t o = first; o < run->use && !err; o++)
        err = site->dev_ops.stream_wait(site->dev, stream, zero__lane_slot(l, o)->event);
    return err ? zero__run_fail(run, site->rank, err, "acquire", zero__error_text()) : 0;
}

int zero__use_begin(struct zero__runner *run, const struct zero__issuing *now, uint32_t op,
                    void *stream, uint64_t *waited_ns)
{
    struct zero__lane *l = &run->lanes[ZERO__Q_COMPUTE];
    uint64_t waits[ZERO__N_QUEUES];

    pthread_mutex_lock(&run->lock);
    int err = zero__lane_issue(run, now, op);
    uint64_t undone = l->done + 1;
    run->use = l->issued;
    if (!err)
        memcpy(waits, zero__lane_slot(l, l->issued)->waits, sizeof waits);
    pthread_mutex_unlock(&run->lock);
    if (!stream)
        waits[ZERO__Q_COMPUTE] = run->use - 1;
    else if (!err && stream != run->use_stream)
        err = uses_order(run, stream, undone);
    if (!err)
        err = zero__lanes_wait(run, waits, waited_ns);
    if (err)
        return err;
    zero__lane_slot(l, run->use)->start_ns = zero__now_ns();
    zero__track_start(run, ZERO__Q_COMPUTE, zero__lane_slot(l, run->use), run->use);
    zero__track_acquired(run, stream); /* its data is there: the stream finds it whenever it runs */
    run->use_is_open = 1;
    return 0;
}

/*
 * The event is recorded without the lock: a full stream makes that call wait, and until `released`
 * no other thread uses the event.
 */
int zero__use_end(struct zero__runner *run, void *stream)
{
    const struct zero__site *site = run->site;
    struct zero__lane *l = &run->lanes[ZERO__Q_COMPUTE];
    struct zero__slot *s = zero__lane_slot(l, run->use);

    zero__track_released(run, stream);
    run->use_stream = stream;
    run->use_is_open = 0;
    int err = stream ? site->dev_ops.event_record(site->dev, s->event, stream) : 0;
    pthread_mutex_lock(&run->lock);
    if (stream) {
        s->on_stream = 1;
    } else {
        /* Earlier uses may still run on a stream: ordinals are done in order. */
        if (l->done + 1 == run->use) {
            zero__lane_done(run, ZERO__Q_COMPUTE, zero__now_ns());
        } else {
            s->on_stream = 1;
            err = site->dev_ops.event_record(site->dev, s->event, run->lanes[ZERO__Q_CPU].stream);
        }
    }
    s->released = !err;
    pthread_mutex_unlock(&run->lock);
    return err ? zero__run_fail(run, site->rank, err, "release", zero__error_text()) : 0;
}

void zero__use_mark(struct zero__runner *run, void *stream)
{
    struct zero__lane *l = &run->lanes[ZERO__Q_COMPUTE];

    run->site->dev_ops.event_record(run->site->dev, zero__lane_slot(l, run->use)->event, stream);
}

/* Notes uses whose streams have got to their ends. */
static int uses_poll(struct zero__runner *run, uint32_t queue)
{
    struct zero__lane *l = &run->lanes[queue];
    int n = 0, all = 0;

    while (l->done < l->issued) {
        const struct zero__slot *s = zero__lane_slot(l, l->done + 1);
        if (!s->released || !s->on_stream)
            break; /* still held; a use that ends on the host is noted by zero__use_end() */
        n = zero__event_poll(run, queue);
        if (n <= 0)
            break;
        all++;
    }
    return n < 0 ? n : all;
}

const struct zero__lane_kind zero__kind_application = {
    .server = ZERO__NO_SERVER, .by_event = 1, .poll = uses_poll};
