/* SPDX-License-Identifier: Apache-2.0 */
/* What a step would move to and from the disk: the accesses of its fetches and writebacks. */
#include "schedule/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/emit.h"

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

int zero__program_traffic(const struct zero__model *m, const struct zero__recipe *r,
                          const struct zero__states *s, struct zero__traffic *traffic)
{
    const struct {
        uint32_t body, times, sums;
    } of[] = {{ZERO__MICRO, r->accum - 1, r->accum > 1 ? r->accum - 2 : 0},
              {ZERO__LAST, 1, r->accum > 1},
              {ZERO__UPDATE_BODY, 1, 1}};
    struct zero__traffic t = {{0, 0}, {0, 0}};
    int err = 0;

    for (uint32_t i = 0; i < sizeof of / sizeof *of && !err; i++) {
        struct zero__body b = {.ops = NULL};
        if (!of[i].times)
            continue;
        err = of[i].body == ZERO__UPDATE_BODY
                  ? zero__emit_update(m, r, s, &b)
                  : zero__emit_train(m, r, s, m->orders[ZERO_TRAIN].uses, m->orders[ZERO_TRAIN].n,
                                     of[i].body == ZERO__LAST, &b);
        if (!err)
            body_count(&b, of[i].body == ZERO__UPDATE_BODY, of[i].times, of[i].sums, &t);
        zero__body_free(&b);
    }
    if (!err)
        *traffic = t;
    return err;
}
