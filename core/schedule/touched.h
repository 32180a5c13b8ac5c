/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which op touched bytes last. The slabs are cut at every border of an access, all of which are
 * known before; between two cuts the ops that touched the bytes are the same, and of each queue the
 * last one is enough, for it implies those before it.
 *
 * Time: n log n for n borders, and for an access as many steps as it has cuts inside. A unit's
 * gradient is touched whole a few times and tile by tile once, so that all of it grows with the
 * accesses.
 */
#ifndef ZERO_SCHEDULE_TOUCHED_H
#define ZERO_SCHEDULE_TOUCHED_H

#include "schedule/program.h"

/* Ordinals of the ops that touched the bytes between two cuts last, by queue; 0: none. */
struct zero__cell {
    uint32_t wrote[ZERO__N_QUEUES], touched[ZERO__N_QUEUES];
};

struct zero__touched {
    struct {
        uint64_t *cuts;
        struct zero__cell *cells; /* from cut i to cut i + 1 */
        size_t n_cuts;
    } slabs[ZERO__N_SLABS];
};

/* Cuts the slabs for the accesses of both bodies. 0 or -ENOMEM; free it either way. */
int zero__touched_make(struct zero__touched *t, const struct zero__states *s,
                       const struct zero__body *u, const struct zero__body *b);
void zero__touched_free(struct zero__touched *t);

/* Raises last[queue] to the last op before that conflicts with the access. */
void zero__touched_find(const struct zero__touched *t, const struct zero__buffer *f,
                        const struct zero__access *x, uint32_t last[ZERO__N_QUEUES]);
/* An op of the queue touches the bytes; ordinals of a queue come in rising order. */
void zero__touched_note(struct zero__touched *t, const struct zero__buffer *f,
                        const struct zero__access *x, uint32_t queue, uint32_t ordinal);

#endif
