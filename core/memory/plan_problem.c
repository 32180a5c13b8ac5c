/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the caller's buffers, rounds the sizes and cuts time into slots. A slot is closed by the
 * first end after a start: until then the set of live buffers only grows.
 */
#include "memory/plan_problem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"

#define SUM_LIMIT (UINT64_C(1) << 62)

/* One start or end. Sorted by key: time, then ends before starts, then the buffer's position. */
struct event {
    uint64_t key;
    uint32_t buffer;
};

static int event_compare(const void *pa, const void *pb)
{
    const struct event *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static bool needs_place(const struct zero__plan_buffer *b)
{
    return b->bytes > 0 && b->first < b->last;
}

static int buffers_verify(const struct zero__plan_buffer *buffers, uint32_t n, uint64_t align,
                          uint32_t *n_used)
{
    uint64_t sum = 0;

    if (align & (align - 1))
        return zero__fail(-EINVAL, "memory plan: alignment %" PRIu64 " is not a power of two",
                          align);
    *n_used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t size;
        if (buffers[i].first > buffers[i].last)
            return zero__fail(-EINVAL,
                              "memory plan: buffer %" PRIu32 " ends at %" PRIu32
                              ", before it starts at %" PRIu32,
                              i, buffers[i].last, buffers[i].first);
        if (!needs_place(&buffers[i]))
            continue;
        if (zero__round_up(buffers[i].bytes, align, &size) || zero__add(sum, size, &sum) ||
            sum >= SUM_LIMIT)
            return zero__fail(-EOVERFLOW,
                              "memory plan: the sizes up to buffer %" PRIu32 " (%" PRIu64
                              " bytes) add up to more than 2^62 bytes; check that size",
                              i, buffers[i].bytes);
        (*n_used)++;
    }
    return 0;
}

static void slots_assign(struct zero__plan_problem *p, const struct event *events)
{
    uint64_t live = 0;
    bool grew = false;

    for (uint32_t k = 0; k < 2 * p->n; k++) {
        uint32_t i = events[k].buffer;
        if (events[k].key & 1) {
            p->first[i] = p->n_slots;
            live += p->size[i];
            grew = true;
            continue;
        }
        if (grew) {
            p->load[p->n_slots++] = live;
            if (live > p->bound)
                p->bound = live;
            grew = false;
        }
        p->last[i] = p->n_slots;
        live -= p->size[i];
    }
}

int zero__plan_no_memory(uint32_t n)
{
    return zero__fail(-ENOMEM, "memory plan: no memory to plan %" PRIu32 " buffers", n);
}

int zero__plan_problem_create(const struct zero__plan_buffer *buffers, uint32_t n, uint64_t align,
                              struct zero__plan_problem *out)
{
    struct zero__plan_problem p = {0};
    uint32_t n_used = 0;

    align = align ? align : 1;
    int err = buffers_verify(buffers, n, align, &n_used);
    if (err)
        return err;
    size_t room = (size_t)n_used + 1; /* never empty */
    struct event *events = malloc(2 * room * sizeof *events);
    p.block = malloc((room + zero__plan_levels_room(n_used)) * sizeof *p.size +
                     3 * room * sizeof *p.id);
    if (!events || !p.block) {
        free(events);
        free(p.block);
        return zero__plan_no_memory(n_used);
    }
    p.size = p.block;
    p.load = p.size + room;
    p.id = (uint32_t *)(p.load + zero__plan_levels_room(n_used));
    p.first = p.id + room;
    p.last = p.first + room;
    for (uint32_t i = 0; i < n; i++) {
        if (!needs_place(&buffers[i]))
            continue;
        p.id[p.n] = i;
        p.size[p.n] = (buffers[i].bytes + (align - 1)) / align;
        events[2 * p.n] = (struct event){(uint64_t)buffers[i].first << 1 | 1, p.n};
        events[2 * p.n + 1] = (struct event){(uint64_t)buffers[i].last << 1, p.n};
        p.n++;
    }
    qsort(events, 2 * (size_t)p.n, sizeof *events, event_compare);
    slots_assign(&p, events);
    zero__plan_levels_take(&p.loads, p.n_slots, p.load);
    free(events);
    *out = p;
    return 0;
}

void zero__plan_problem_destroy(struct zero__plan_problem *p)
{
    free(p->block);
    memset(p, 0, sizeof *p);
}

void zero__plan_by_slot(const struct zero__plan_problem *p, const uint32_t *slot, uint32_t *list,
                        uint32_t *at)
{
    memset(at, 0, ((size_t)p->n_slots + 2) * sizeof *at);
    for (uint32_t b = 0; b < p->n; b++)
        at[slot[b] + 1]++;
    for (uint32_t s = 0; s <= p->n_slots; s++)
        at[s + 1] += at[s];
    for (uint32_t b = 0; b < p->n; b++)
        list[at[slot[b]]++] = b;
    memmove(at + 1, at, ((size_t)p->n_slots + 1) * sizeof *at);
    at[0] = 0;
}
