/* SPDX-License-Identifier: Apache-2.0 */
/* The passes that make a body, in the order in which they run: emit, plan, link. */
#ifndef ZERO_SCHEDULE_PASSES_H
#define ZERO_SCHEDULE_PASSES_H

#include "schedule/program.h"

/* The first is for evaluations, too; last: of a step. */
int zero__emit_train(const struct zero__model *m, const struct zero__recipe *r,
                     const struct zero__states *s, const struct zero_use *uses, uint32_t n_uses,
                     int last, struct zero__body *b);
int zero__emit_update(const struct zero__model *m, const struct zero__recipe *r,
                      const struct zero__states *s, struct zero__body *b);

/* Bodies of one unit, see emit_single.c. */
enum zero__reduction {
    ZERO__OPEN,   /* the gradient's buffers, zeroed gaps */
    ZERO__CLOSE,  /* what follows the unit's last contribution to a micro-batch, maybe the last */
    ZERO__FINISH, /* what is left to do with sums that the last micro-batch adds nothing to */
    ZERO__ZEROED, /* a gradient of zero, where early updates are to see one */
};
int zero__emit_gather(const struct zero__model *m, const struct zero__recipe *r,
                      const struct zero__states *s, uint32_t unit, struct zero__body *b);
int zero__emit_reduction(const struct zero__model *m, const struct zero__recipe *r,
                         const struct zero__states *s, uint32_t unit,
                         enum zero__reduction part, int last, struct zero__body *b);
/*
 * One copy of an activation, between `at` in the device's transients and where it lies in
 * `planned`, which is memory of the host.
 */
int zero__emit_move(const struct zero__model *m, const struct zero__states *s,
                    const struct zero__body *planned, uint32_t declared, uint64_t at, int out,
                    struct zero__body *b);

int zero__plan_body(struct zero__body *b, uint64_t nodes, uint32_t threads);
int zero__live_body(struct zero__body *b); /* a part of the plan pass */
/*
 * `update`: the linked update body whose last ops may still be under way when this one begins;
 * NULL: nothing is.
 */
int zero__link_body(const struct zero__states *s, const struct zero__body *update,
                    struct zero__body *b);

#endif
