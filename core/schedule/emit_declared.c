/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declared buffers in the emit pass. A buffer lives from the first use that matches its start to
 * the last use that matches its end; two accesses, at both ends, order it against whatever else is
 * placed on its bytes, because compute ops run in order among themselves.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/emit.h"

/* The first and the last use of each unit in each pass: at 2 * unit + pass. */
struct matches {
    uint32_t *first, *last;
};

static int matches_find(const struct emit *e, struct matches *x)
{
    x->first = zero__all_ones(2 * (size_t)e->m->n_units, sizeof *x->first);
    x->last = zero__all_ones(2 * (size_t)e->m->n_units, sizeof *x->last);
    if (!x->first || !x->last)
        return -ENOMEM;
    for (uint32_t i = 0; i < e->n_uses; i++) {
        size_t k = 2 * (size_t)e->uses[i].unit + e->uses[i].pass;
        if (x->first[k] == ZERO_NONE)
            x->first[k] = i;
        x->last[k] = i;
    }
    return 0;
}

static uint32_t first_match(const struct matches *x, uint32_t unit, uint32_t pass)
{
    return unit == ZERO_WHOLE_STEP ? 0 : x->first[2 * (size_t)unit + pass];
}

static uint32_t last_match(const struct emit *e, const struct matches *x, uint32_t unit,
                           uint32_t pass)
{
    return unit == ZERO_WHOLE_STEP ? e->n_uses - 1 : x->last[2 * (size_t)unit + pass];
}

static int lives_find(struct emit *e, const struct matches *x)
{
    for (uint32_t i = 0; i < e->m->n_buffers; i++) {
        const struct zero_buffer_desc *d = &e->m->buffers[i].desc;
        uint32_t first = first_match(x, d->from_unit, d->from_pass);
        uint32_t last = last_match(e, x, d->to_unit, d->to_pass);

        if (e->m->buffers[i].activation) { /* what is not consumed lives in its first use alone */
            if (first == ZERO_NONE || last == ZERO_NONE)
                last = first;
        } else if (first != ZERO_NONE && last == ZERO_NONE && d->to_pass == ZERO_BACKWARD) {
            last = last_match(e, x, d->to_unit, ZERO_FORWARD); /* an evaluation */
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

/* Declared buffers that begin or end with each use, in order of declaration, each once. */
static int ends_find(struct emit *e)
{
    uint32_t n = e->m->n_buffers, *keys = zero__all_ones(2 * (size_t)n, sizeof *keys);

    for (uint32_t i = 0; keys && i < n; i++) {
        keys[2 * i] = e->lives[i].first;
        if (e->lives[i].last != e->lives[i].first)
            keys[2 * i + 1] = e->lives[i].last;
    }
    int err = keys ? zero__lists_make(&e->ends, e->n_uses, keys, NULL, 2 * n) : -ENOMEM;
    free(keys);
    return err;
}

int zero__declared_lives(struct emit *e)
{
    struct matches x = {NULL, NULL};
    int err = 0;

    e->lives = malloc(((size_t)e->m->n_buffers + 1) * sizeof *e->lives);
    if (!e->lives || matches_find(e, &x))
        err = -ENOMEM;
    if (!err)
        err = lives_find(e, &x);
    if (!err)
        err = ends_find(e);
    free(x.first);
    free(x.last);
    return err == -ENOMEM ? zero__fail(err, "no memory for %u declared buffers", e->m->n_buffers)
                          : err;
}

void zero__declared_end(struct emit *e)
{
    free(e->lives);
    zero__lists_free(&e->ends);
}

static uint32_t role_of(const struct emit *e, uint32_t i, uint32_t use)
{
    if (!e->m->buffers[i].activation)
        return ZERO__R_DECLARED;
    return e->lives[i].first == use ? ZERO__R_PRODUCED : ZERO__R_CONSUMED;
}

void zero__declared_access(struct emit *e, uint32_t use)
{
    for (const uint32_t *at = zero__list_begin(&e->ends, use); at < zero__list_end(&e->ends, use);
         at++) {
        const uint32_t i = *at / 2;
        const struct zero_buffer_desc *d = &e->m->buffers[i].desc;

        if (e->lives[i].first == use) {
            e->b->declared[i] = zero__body_buffer(e->b, d->memory_class, ZERO_NONE, i, d->bytes);
            zero__body_at(e->b, e->b->declared[i])->first = e->b->n_ops - 1;
        }
        zero__body_access(e->b, e->b->declared[i], ZERO_NONE, role_of(e, i, use), 1, 0, d->bytes);
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
    for (const uint32_t *at = zero__list_begin(&e->ends, use); at < zero__list_end(&e->ends, use);
         at++) {
        const uint32_t i = *at / 2;
        if (e->lives[i].last == use && !is_whole(e, i))
            zero__body_end(e->b, marked, e->uses[use].unit, e->b->declared[i]);
    }
}
