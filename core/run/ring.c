/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups in the rings of issued ops. */
#include "run/runner.h"

struct zero__slot *zero__lane_slot(const struct zero__lane *l, uint64_t ordinal)
{
    return &l->slots[ordinal & (l->capacity - 1)];
}

const char *zero__slot_subject(const struct zero__runner *run, const struct zero__slot *s)
{
    uint32_t unit = s->body ? s->body->ops[s->op].unit : ZERO_NONE;

    return unit == ZERO_NONE ? "the runtime" : run->site->model.units[unit].name;
}

const struct zero__slot *zero__lane_head(const struct zero__lane *l)
{
    if (!l->kind->collective || l->done == l->started)
        return NULL;
    const struct zero__slot *s = zero__lane_slot(l, l->done + 1);
    return s->armed ? s : NULL;
}

int zero__lanes_reached(const struct zero__runner *run, const uint64_t *ordinals)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (run->lanes[q].done < ordinals[q])
            return 0;
    return 1;
}
