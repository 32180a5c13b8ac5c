/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of uses as the emit pass asks for it: the neighbours of each use among the uses of its
 * unit, and how many uses add to a unit's gradient. One walk finds them for all uses.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/emit.h"

int zero__order_begin(struct emit *e)
{
    uint32_t *last = zero__all_ones(e->m->n_units, sizeof *last); /* use of each unit so far */

    e->next = zero__all_ones(e->n_uses, sizeof *e->next);
    e->before = zero__all_ones(e->n_uses, sizeof *e->before);
    e->contributions = calloc((size_t)e->m->n_units + 1, sizeof *e->contributions);
    if (!last || !e->next || !e->before || !e->contributions) {
        free(last);
        return zero__fail(-ENOMEM, "no memory for a step program of %u uses", e->n_uses);
    }
    for (uint32_t i = 0; i < e->n_uses; i++) {
        uint32_t unit = e->uses[i].unit;
        e->before[i] = last[unit];
        if (last[unit] != ZERO_NONE)
            e->next[last[unit]] = i;
        last[unit] = i;
        e->contributions[unit] += e->uses[i].pass == ZERO_BACKWARD;
    }
    free(last);
    return 0;
}

void zero__order_end(struct emit *e)
{
    free(e->next);
    free(e->before);
    free(e->contributions);
}
