/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declared buffers in the emit pass. A buffer lives from the first use that matches its start to
 * the last use that matches its end; two accesses, at both ends, order it against whatever else is
 * placed on its bytes, because compute ops run in order among themselves.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "schedule/emit.h"

static uint32_t first_match(const struct emit *e, uint32_t unit, uint32_t pass)
{
    if (unit == ZERO_WHOLE_STEP)
        return 0;
    for (uint32_t i = 0; i < e->n_uses; i++)
        if (e->uses[i].unit == unit && e->uses[i].pass == pass)
            return i;
    return ZERO_NONE;
}

static uint32_t last_match(const struct emit *e, uint32_t unit, uint32_t pass)
{
    if (unit == ZERO_WHOLE_STEP)
        return e->n_uses - 1;
    for (uint32_t i = e->n_uses; i-- > 0;)
        if (e->uses[i].unit == unit && e->uses[i].pass == pass)
            return i;
    return ZERO_NONE;
}

int zero__declared_lives(struct emit *e)
{
    uint32_t n = e->m->n_buffers;

    e->lives = malloc((n + 1) * sizeof *e->lives);
    if (!e->lives)
        return zero__fail(-ENOMEM, "no memory for %u declared buffers", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct zero_buffer_desc *d = &e->m->buffers[i].desc;
        uint32_t first = first_match(e, d->from_unit, d->from_pass);
        uint32_t last = last_match(e, d->to_unit, d->to_pass);

        if (e->m->buffers[i].activation) { /* what is not consumed lives in its first use alone */
            if (first == ZERO_NONE || last == ZERO_NONE)
                last = first;
        } else if (first != ZERO_NONE && last == ZERO_NONE && d->to_pass == ZERO_BACKWARD) {
            last = last_match(e, d->to_unit, ZERO_FORWARD); /* an evaluation */
            if (last != ZERO_NONE && last < first) /* that one ends before it comes to `first` */
                last = first;
        }
        if (first == ZERO_NONE || last == ZERO_NONE)
            first = last = ZERO_NONE;
        else if (last < first)
            return zero__fail(-EINVAL, "buffer %s ends (unit %s) before it starts (unit %s) in "
                              "the declared order", d->name, e->m->units[d->to_unit].name,
                              e->m->units[d->from_unit].name);
        e->lives[i] = (struct emit_life){first, last};
    }
    return 0;
}

static uint32_t role_of(const struct emit *e, uint32_t i, uint32_t use)
{
    if (!e->m->buffers[i].activation)
        return ZERO__R_DECLARED;
    return e->lives[i].first == use ? ZERO__R_PRODUCED : ZERO__R_CONSUMED;
}

void zero__declared_access(struct emit *e, uint32_t use)
{
    for (uint32_t i = 0; i < e->m->n_buffers; i++) {
        const struct zero_buffer_desc *d = &e->m->buffers[i].desc;

        if (e->lives[i].first == use) {
            e->b->declared[i] = zero__body_buffer(e->b, d->memory_class, ZERO_NONE, i, d->bytes);
            zero__body_at(e->b, e->b->declared[i])->first = e->b->n_ops - 1;
        }
        if (e->lives[i].first == use || e->lives[i].last == use)
            zero__body_access(e->b, e->b->declared[i], ZERO_NONE, role_of(e, i, use), 1, 0,
                              d->bytes);
    }
}

/* Does it live to the step's end, behind the last use? */
static int is_whole(const struct emit *e, uint32_t i)
{
    return !e->m->buffers[i].activation && e->m->buffers[i].desc.to_unit == ZERO_WHOLE_STEP;
}

void zero__declared_finish(struct emit *e)
{
    for (uint32_t i = 0; i < e->m->n_buffers; i++)
        if (e->lives[i].last != ZERO_NONE && is_whole(e, i))
            zero__body_at(e->b, e->b->declared[i])->last = e->b->n_ops;
}

void zero__declared_free(struct emit *e, uint32_t use, uint32_t *marked)
{
    for (uint32_t i = 0; i < e->m->n_buffers; i++)
        if (e->lives[i].last == use && !is_whole(e, i))
            zero__body_end(e->b, marked, e->uses[use].unit, e->b->declared[i]);
}
