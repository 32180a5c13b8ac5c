/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the search: buffers are stacked from the bottom up, so all that matters of those
 * placed is, for each slot, how high they reach. Every change is noted on a trail and can be
 * undone.
 *
 * Space below the floor that no buffer holds is lost: it is paid from the slot's slack, the
 * capacity less all that must lie in the slot. Hence floor + unplaced bytes <= capacity at all
 * times.
 */
#ifndef ZERO_MEMORY_PLAN_SKYLINE_H
#define ZERO_MEMORY_PLAN_SKYLINE_H

#include <stdbool.h>

#include "memory/plan_problem.h"

#define ZERO__PLAN_NOBODY UINT32_MAX

struct zero__plan_step {
    uint64_t floor, solid, slack;
    uint32_t slot, top;
};

struct zero__plan_skyline {
    const struct zero__plan_problem *p;
    uint64_t *floor; /* by slot: nothing more can be placed below */
    uint64_t *solid; /* by slot: the end of the highest buffer placed, <= floor */
    uint64_t *slack; /* by slot: bytes that may still be lost */
    uint64_t *key;   /* by slot: random key of the unplaced buffers that start there */
    uint32_t *top;   /* by slot: the highest buffer placed, or ZERO__PLAN_NOBODY */
    uint32_t *cross; /* by slot: unplaced buffers alive both here and in the slot before */
    /* Buffers by first slot: starts[starts_at[s]] .. starts[starts_at[s + 1] - 1]; by last slot
     * likewise. Longer ones first, equals side by side. */
    uint32_t *starts, *starts_at, *ends, *ends_at;
    bool *placed;
    uint64_t *offset;
    struct zero__plan_step *trail;
    uint32_t *stack;                  /* buffers placed, in order */
    uint64_t n_trail, n_trail_placed; /* steps; those of them that place buffers */
    uint32_t n_stack;
    void *block;
};

struct zero__plan_mark {
    uint64_t n_trail;
    uint32_t n_stack;
};

int zero__plan_skyline_create(const struct zero__plan_problem *p, struct zero__plan_skyline *out);
void zero__plan_skyline_destroy(struct zero__plan_skyline *s);

/* Empties the state. The capacity is no less than the problem's bound. */
void zero__plan_skyline_reset(struct zero__plan_skyline *s, uint64_t capacity);

/* Places buffer b upon height, the floor of all its slots. */
void zero__plan_skyline_place(struct zero__plan_skyline *s, uint32_t b, uint64_t height);

/* Gives the slots first .. last - 1 up to a height above their floor, within their slack. False,
 * and nothing done, when the trail is full. */
bool zero__plan_skyline_raise(struct zero__plan_skyline *s, uint32_t first, uint32_t last,
                              uint64_t height);

static inline struct zero__plan_mark zero__plan_skyline_mark(const struct zero__plan_skyline *s)
{
    return (struct zero__plan_mark){s->n_trail, s->n_stack};
}

void zero__plan_skyline_undo(struct zero__plan_skyline *s, struct zero__plan_mark mark);

#endif
