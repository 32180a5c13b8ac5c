/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a body has live of each class, in one walk over the beginnings and ends of its buffers: what
 * the memory table is made of.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/passes.h"

/* A buffer begins or ends before op `at`. */
struct event {
    uint32_t at, buffer;
    int ends;
};

static int event_compare(const void *x, const void *y)
{
    const struct event *a = x, *b = y;

    return (a->at > b->at) - (a->at < b->at);
}

static void live_note(const uint64_t live[ZERO_N_CLASSES], uint64_t all, struct zero__live *most)
{
    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
        if (live[c] > most->most[c])
            most->most[c] = live[c];
    if (all > most->peak) {
        most->peak = all;
        memcpy(most->at_peak, live, sizeof most->at_peak);
    }
}

static void tier_walk(struct zero__body *b, uint32_t tier, const struct event *events, size_t n)
{
    uint64_t live[ZERO_N_CLASSES] = {0}, all = 0;
    struct zero__live *most = &b->live[tier];

    *most = (struct zero__live){.peak = 0};
    for (size_t i = 0; i < n; i++) {
        const struct zero__buffer *f = &b->buffers[events[i].buffer];
        uint64_t bytes = f->tier == tier ? zero__whole_pages(f->bytes) : 0;
        if (events[i].ends)
            live[f->memory_class] -= bytes, all -= bytes;
        else
            live[f->memory_class] += bytes, all += bytes;
        if (i + 1 == n || events[i + 1].at != events[i].at)
            live_note(live, all, most);
    }
}

int zero__live_body(struct zero__body *b)
{
    struct event *events = calloc(2 * (size_t)b->n_buffers + 1, sizeof *events);
    size_t n = 0;

    if (!events)
        return zero__fail(-ENOMEM, "no memory to add up %u buffers", b->n_buffers);
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        events[n++] = (struct event){b->buffers[i].first, i, 0};
        events[n++] = (struct event){b->buffers[i].last, i, 1};
    }
    qsort(events, n, sizeof *events, event_compare);
    for (uint32_t tier = 0; tier < ZERO__N_TIERS; tier++)
        tier_walk(b, tier, events, n);
    free(events);
    return 0;
}
