/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of one unit, for a step that goes another way than its program: the gather of a unit, the
 * buffers of its gradients, and their reduction. They are run op by op, so nothing links them.
 */
#include <errno.h>
#include <stdlib.h>

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
    return zero__unit_gathered_bytes(&e, unit) ? zero__gather(&e, 0) : 0;
}

int zero__emit_reduction(const struct zero__model *m, const struct zero__recipe *r,
                         const struct zero__states *s, uint32_t unit, int open, int last,
                         struct zero__body *b)
{
    struct zero_use use = {unit, ZERO_BACKWARD};
    struct emit e = single(m, r, s, &use, b);
    uint32_t *grads = malloc((m->n_units + 1) * sizeof *grads);
    int err = 0;

    e.bucket_limit = UINT64_MAX;
    e.last = last;
    e.retire = calloc(1, sizeof *e.retire);
    e.grads = grads;
    if (!grads || !e.retire) {
        err = zero__fail(-ENOMEM, "no memory for a reduction");
    } else {
        grads[unit] = ZERO_NONE;
        err = zero__grad_open(&e, unit);
        if (!open) {
            /* The buffers' contents are there already: only the reduction is to run. */
            b->n_ops = b->n_accesses = 0;
            for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
                b->in_queue[q] = 0;
            err = err ? err : zero__grad_close(&e, unit);
        }
    }
    free(grads);
    free(e.retire);
    return err;
}
