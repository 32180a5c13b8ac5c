/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates that do not wait for the norm of all gradients: of states outside the device, tile by
 * tile as in an update body, but beside the last backward pass, each unit as soon as its gradient
 * is reduced (as LOMO does without states, ACL 2024, figure 1). So the disk works while the
 * device computes, and of a gradient nothing has to stay.
 *
 * What the update body keeps: the norm, which now only tells, and making updated parameters whole.
 * No rank writes parameters that a peer still reads: a rank's part of a gradient is reduced when
 * all ranks have computed theirs, in their last use of the unit, or, where no use contributes, have
 * done with those uses, behind which the gradient of zero is made.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "schedule/emit.h"

int zero__unit_is_early(const struct zero__model *m, const struct zero__states *s, uint32_t unit)
{
    FOR_SEGMENTS (m, unit, i)
        if (s->homes[i].early)
            return 1;
    return 0;
}

/* The unit's next use behind i, and a backward one if there is any. */
static uint32_t later_use(const struct emit *e, uint32_t i)
{
    for (uint32_t j = e->next[i]; j != ZERO_NONE; j = e->next[j])
        if (e->uses[j].pass == ZERO_BACKWARD)
            return j;
    return e->next[i];
}

/*
 * Units in the order of their reductions, those at the end that no use contributes to. A unit that
 * is used once more behind its reduction would find new parameters.
 */
static int order_find(const struct emit *e, uint32_t *units, uint32_t *n)
{
    for (uint32_t i = 0; i < e->n_uses; i++) {
        const struct zero_use *x = &e->uses[i];
        if (x->pass != ZERO_BACKWARD || !zero__unit_is_early(e->m, e->s, x->unit))
            continue;
        uint32_t next = later_use(e, i);
        if (next != ZERO_NONE && e->uses[next].pass == ZERO_BACKWARD)
            continue;
        if (next != ZERO_NONE)
            return zero__fail(-EINVAL,
                              "unit %s has a forward use behind its last backward one, but is "
                              "updated in between with ZERO_UPDATE_AT=backward: set "
                              "ZERO_UPDATE_AT=end",
                              e->m->units[x->unit].name);
        units[(*n)++] = x->unit;
    }
    for (uint32_t u = 0; u < e->m->n_units; u++)
        if (!e->contributions[u] && zero__unit_is_early(e->m, e->s, u))
            units[(*n)++] = u;
    return 0;
}

/* What the updates read of the step; its number counts from here on. */
static void scalars(struct emit *e)
{
    struct zero__op op = {.kind = ZERO__SCALARS, .queue = ZERO__Q_CPU, .unit = ZERO_NONE};

    zero__body_op(e->b, &op);
    zero__body_access(e->b, e->s->scalars, ZERO_NONE, ZERO__R_DST, 1, 0,
                      sizeof(struct zero_scalars));
}

int zero__early_units(struct emit *e, const uint32_t *units, uint32_t n_units)
{
    e->brought = malloc((e->m->n_segments + 1) * sizeof *e->brought);
    if (!e->brought)
        return zero__fail(-ENOMEM, "no memory for a step program");
    for (uint32_t i = 0; i < e->m->n_segments; i++)
        e->brought[i] = (struct zero__brought){
            ZERO_NONE, e->s->homes[i].early ? ZERO__TO_BRING : ZERO_NONE, 0};
    return zero__tiles_create(e->m, e->r, e->s, e->brought, units, n_units, 1, &e->tiles);
}

int zero__early_begin(struct emit *e)
{
    uint32_t n = 0, *units;
    int err;

    if (!e->r->early || !e->last)
        return 0;
    units = malloc((e->m->n_units + 1) * sizeof *units);
    err = units ? order_find(e, units, &n) : zero__fail(-ENOMEM, "no memory for a step program");
    if (!err)
        err = zero__early_units(e, units, n);
    free(units);
    if (!err)
        scalars(e);
    return err;
}

void zero__early_rest(struct emit *e)
{
    for (uint32_t u = 0; u < e->m->n_units && e->tiles; u++)
        if (!e->contributions[u] && zero__unit_is_early(e->m, e->s, u))
            zero__grad_zero(e, u);
}

void zero__early_end(struct emit *e)
{
    zero__tiles_free(e->tiles);
    free(e->brought);
}
