/* SPDX-License-Identifier: Apache-2.0 */
/* A step that leaves the declared order: what it has in use, and the places it finds for it. */
#ifndef ZERO_STEP_DEVIATE_H
#define ZERO_STEP_DEVIATE_H

#include "schedule/program.h"

struct zero__step;

/* A range of the transients' slab that a deviating step has in use. */
struct extent {
    uint64_t first, last;
};

struct zero__deviation {
    int on;
    struct extent *used; /* sorted */
    uint32_t n_used, capacity;
    struct zero_use *recorded; /* the order as it comes */
    uint32_t n_recorded, cap_recorded;
    uint64_t *param_at, *grad_at; /* by segment: offset in the slab, or ZERO__NOWHERE */
    uint64_t *region_at;          /* by declared buffer, likewise */
    uint32_t *backward;           /* by unit: contributions so far */
    uint8_t *reduced;
    struct zero__body body; /* of the unit that is gathered or reduced now */
};

/* ---- deviate.c */

int zero__deviate_create(struct zero__step *step);
void zero__deviate_free(struct zero__step *step);
/* The step goes another way than the program: drains and switches to on-demand gathers. */
int zero__deviate_begin(struct zero__step *step);
int zero__deviate_acquire(struct zero__step *step, uint32_t unit, uint32_t pass);
int zero__deviate_release(struct zero__step *step, uint32_t unit, uint32_t pass);
/*
 * How many uses of that kind this step has had, with the one that goes on, beyond those of the
 * declared order; < 0: fewer.
 */
int64_t zero__deviate_beyond(const struct zero__step *step, uint32_t unit, uint32_t pass);
/* Where a declared region lies for the rest of the body; its planned life means nothing now. */
int zero__deviate_region(struct zero__step *step, uint32_t buffer, void **p);
/* The body is over; its order is kept for the next step. */
int zero__deviate_end(struct zero__step *step);
/*
 * Before an update: what the last micro-batch would have done with the sums of a unit to which it
 * did not contribute, or, where updates run early, with a gradient of zero, which may be added to
 * them.
 */
int zero__deviate_finish(struct zero__step *step, uint32_t unit);

/* An empty body, the only one at a time, for a copy of an activation; runs it. */
struct zero__body *zero__deviate_body(struct zero__step *step);
int zero__deviate_run(struct zero__step *step, struct zero__body *b);

/* ---- pool.c: places of a step out of order, in the transients' slab */

#define ZERO__NOWHERE UINT64_MAX
int zero__pool_take(struct zero__step *step, uint64_t bytes, uint64_t *at);
void zero__pool_drop(struct zero__step *step, uint64_t at);
/* Does nothing lie there? */
int zero__pool_is_free(const struct zero__step *step, uint64_t at, uint64_t bytes);
/* Something lies there already. */
int zero__pool_keep(struct zero__step *step, uint64_t at, uint64_t bytes);
void zero__pool_empty(struct zero__step *step);
void zero__pool_free(struct zero__step *step);
/*
 * Gives the body's buffers places: parameters and gradients those in `at`, by segment, which are
 * found now where there are none, and stay; others until zero__pool_return().
 */
int zero__pool_place(struct zero__step *step, struct zero__body *b, uint64_t *at);
void zero__pool_return(struct zero__step *step, const struct zero__body *b);
/* What of the unit has a place in `at` needs it no more. */
void zero__pool_leave(struct zero__step *step, uint32_t unit, uint64_t *at);

#endif
