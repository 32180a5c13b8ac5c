/* SPDX-License-Identifier: Apache-2.0 */
/* What a step would move to and from the disk: the accesses of its fetches and writebacks. */
#include "schedule/program.h"

/* `sums`: micro-batches that find sums of others before them, of `times` in all. */
static void body_count(const struct zero__body *b, int at_end, uint32_t times, uint32_t sums,
                       struct zero__traffic *t)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        struct zero__disk_bytes *d =
            op->flags & ZERO__OP_TILE || at_end ? &t->update : &t->passes;
        *(op->kind == ZERO__FETCH ? &d->read : &d->written) +=
            zero__op_disk_bytes(b, op) * (op->flags & ZERO__OP_SUMS ? sums : times);
    }
}

void zero__program_traffic(const struct zero__program *p, const struct zero__recipe *r,
                           struct zero__traffic *traffic)
{
    *traffic = (struct zero__traffic){{0, 0}, {0, 0}};
    if (r->accum > 1) /* else every micro-batch is the last */
        body_count(&p->bodies[ZERO__MICRO], 0, r->accum - 1, r->accum - 2, traffic);
    body_count(&p->bodies[ZERO__LAST], 0, 1, r->accum > 1, traffic);
    body_count(&p->bodies[ZERO__UPDATE_BODY], 1, 1, 1, traffic);
}
