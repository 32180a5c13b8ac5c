/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The independent check of a plan: a sweep over starts and ends that keeps the buffers alive sorted
 * by offset. As these do not overlap, one that starts overlaps a neighbour if any. It shares no
 * code with the solvers.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "memory/plan.h"

/* One start or end. */
struct event {
    uint32_t time, index;
    bool start;
};

struct live {
    uint64_t offset;
    uint32_t index;
};

/* At one time ends come before starts. */
static int event_compare(const void *pa, const void *pb)
{
    const struct event *a = pa, *b = pb;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->start != b->start)
        return a->start ? 1 : -1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The number of those that lie below offset. */
static uint32_t live_below(const struct live *live, uint32_t n, uint64_t offset)
{
    uint32_t lo = 0;

    while (lo < n) {
        uint32_t mid = lo + (n - lo) / 2;
        if (live[mid].offset < offset)
            lo = mid + 1;
        else
            n = mid;
    }
    return lo;
}

/* Index of the live buffer that overlaps buffer i, or i. */
static uint32_t overlap_find(const struct zero__plan_buffer *buffers, uint32_t i,
                             const struct live *live, uint32_t n, uint32_t at)
{
    const struct zero__plan_buffer *x = &buffers[i];

    if (at < n && live[at].offset - x->offset < x->bytes)
        return live[at].index;
    if (at > 0 && x->offset - live[at - 1].offset < buffers[live[at - 1].index].bytes)
        return live[at - 1].index;
    return i;
}

static uint32_t events_list(const struct zero__plan_buffer *buffers, uint32_t n,
                            struct event *events)
{
    uint32_t n_events = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (buffers[i].bytes == 0 || buffers[i].first >= buffers[i].last)
            continue;
        events[n_events++] = (struct event){buffers[i].first, i, true};
        events[n_events++] = (struct event){buffers[i].last, i, false};
    }
    qsort(events, n_events, sizeof *events, event_compare);
    return n_events;
}

int zero__plan_check(const struct zero__plan_buffer *buffers, uint32_t n, uint32_t *a, uint32_t *b)
{
    struct event *events = malloc((2 * (size_t)n + 1) * sizeof *events);
    struct live *live = malloc(((size_t)n + 1) * sizeof *live);
    uint32_t n_live = 0;
    int err = 0;

    if (!events || !live) {
        err = zero__fail(-ENOMEM, "memory plan: no memory to check a plan");
        goto out;
    }
    uint32_t n_events = events_list(buffers, n, events);
    for (uint32_t k = 0; k < n_events; k++) {
        uint32_t i = events[k].index, at = live_below(live, n_live, buffers[i].offset);
        if (!events[k].start) {
            n_live--;
            memmove(live + at, live + at + 1, (n_live - at) * sizeof *live);
            continue;
        }
        uint32_t other = overlap_find(buffers, i, live, n_live, at);
        if (other != i) {
            *a = other;
            *b = i;
            err =
                zero__fail(-EEXIST, "memory plan: buffers %u and %u are alive together and overlap",
                           (unsigned)*a, (unsigned)*b);
            goto out;
        }
        memmove(live + at + 1, live + at, (n_live - at) * sizeof *live);
        live[at] = (struct live){buffers[i].offset, i};
        n_live++;
    }
out:
    free(live);
    free(events);
    return err;
}
