/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of one unit, for a step that goes another way than its program: the gather of a unit, the
 * buffers of its gradients, and their reduction. They are run op by op, so nothing links them.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/emit.h"

static struct emit single(const struct zero__model *m, const struct zero__recipe *r,
                          const struct zero__states *s, struct zero_use *use, struct zero__body *b)
{
    struct emit e = {.m = m, .r = r, .s = s, .b = b, .uses = use, .n_uses = 1};
    b->n_homes = s->n_buffers;
    return e;
}

int zero__emit_gather(const struct zero__model *m, const struct zero__recipe *r,
                      const struct zero__states *s, uint32_t unit, struct zero__body *b)
{
    struct zero_use use = {unit, ZERO_FORWARD};
    struct emit e = single(m, r, s, &use, b);
    uint32_t gathered = ZERO_NONE;

    e.gathered = &gathered;
    if (zero__unit_gathered_bytes(&e, unit))
        zero__gather(&e, 0);
    return b->err;
}

static void reduction(struct emit *e, uint32_t unit, enum zero__reduction part)
{
    if (part == ZERO__FINISH)
        zero__grad_finish(e, unit);
    else if (part == ZERO__ZEROED)
        zero__grad_zero(e, unit);
    else
        zero__grad_open(e, unit);
    if (part != ZERO__CLOSE)
        return;
    /* The buffers' contents are there already: only the reduction is to run. */
    e->b->n_ops = e->b->n_accesses = 0;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        e->b->in_queue[q] = 0;
    zero__grad_close(e, unit);
}

int zero__emit_reduction(const struct zero__model *m, const struct zero__recipe *r,
                         const struct zero__states *s, uint32_t unit, enum zero__reduction part,
                         int last, struct zero__body *b)
{
    struct zero_use use = {unit, ZERO_BACKWARD};
    struct zero__recipe one = *r; /* tile at a time, wherever there is room */
    struct emit e = single(m, &one, s, &use, b);
    uint32_t *by_segment = zero__all_ones(2 * (size_t)m->n_segments, sizeof *by_segment);
    int err = 0;

    one.tiles = 1;
    e.bucket_limit = UINT64_MAX;
    e.last = last;
    e.retire = calloc(1, sizeof *e.retire);
    if (!by_segment || !e.retire) {
        err = zero__fail(-ENOMEM, "no memory for a reduction");
    } else {
        e.bucket = by_segment;
        e.sums = by_segment + m->n_segments;
        if (r->early && last && part != ZERO__OPEN)
            err = zero__early_units(&e, &unit, 1);
        if (!err)
            reduction(&e, unit, part);
    }
    zero__early_end(&e);
    free(by_segment);
    free(e.retire);
    return err ? err : b->err;
}
