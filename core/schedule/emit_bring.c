/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an update brings to the device: parameters that lie elsewhere and are updated by the device,
 * or gathered from the ranks before they go home, and gradients that lie elsewhere where the
 * optimizer states do not. A unit is brought while the one before it is updated, as far as
 * prefetch_bytes allow, and buffers end only when their room is wanted, so that units are brought,
 * updated, published and stored at once.
 */
#include "schedule/emit_bring.h"

#include <stdlib.h>

#include "base/status.h"
#include "schedule/emit.h"
#include "schedule/tiles.h"

struct zero__bring {
    const struct zero__model *m;
    const struct zero__recipe *r;
    const struct zero__states *s;
    struct zero__brought *of; /* by segment */
    struct zero__moves *back; /* by unit */
    uint32_t brought, stored, ended;
    uint64_t live;
};

/* Of one home; its mirror on the device is laid out like it. */
static struct zero__part part_of(const struct zero__bring *x, uint32_t i, int grad)
{
    const struct zero__gradient g = zero__gradient_of(x->m, x->r, x->s, i);

    return grad ? (struct zero__part){g.home, g.bytes, g.used_off, g.used_bytes}
                : zero__parameter_of(x->m, x->r, x->s, i);
}

static int is_wanted(const struct zero__bring *x, uint32_t i, int grad)
{
    const struct zero__segment *g = &x->m->segments[i];
    int on_device = zero__optimizer_tier(x->s, i) == ZERO__T_DEVICE;

    return g->trainable && zero__tier_of(x->s, part_of(x, i, grad).home) != ZERO__T_DEVICE &&
           (on_device || (!grad && zero__publishes(x->r, g, &x->s->homes[i])));
}

int zero__bring_create(const struct zero__model *m, const struct zero__recipe *r,
                       const struct zero__states *s, struct zero__bring **out)
{
    struct zero__bring *x = calloc(1, sizeof *x);

    if (x) {
        *x = (struct zero__bring){.m = m, .r = r, .s = s};
        x->of = malloc((m->n_segments + 1) * sizeof *x->of);
        x->back = calloc(m->n_units + 1, sizeof *x->back);
    }
    if (!x || !x->of || !x->back) {
        zero__bring_free(x);
        return zero__fail(-ENOMEM, "no memory for a step program");
    }
    for (uint32_t i = 0; i < m->n_segments; i++)
        x->of[i] = (struct zero__brought){is_wanted(x, i, 0) ? ZERO__TO_BRING : ZERO_NONE,
                                          is_wanted(x, i, 1) ? ZERO__TO_BRING : ZERO_NONE, 0};
    *out = x;
    return 0;
}

void zero__bring_free(struct zero__bring *x)
{
    if (x) {
        free(x->of);
        free(x->back);
    }
    free(x);
}

const struct zero__brought *zero__bring_places(const struct zero__bring *x)
{
    return x->of;
}

static uint64_t unit_bytes(const struct zero__bring *x, uint32_t unit)
{
    uint64_t bytes = 0;

    FOR_SEGMENTS (x->m, unit, i)
        for (int grad = 0; grad < 2; grad++)
            bytes += is_wanted(x, i, grad) ? part_of(x, i, grad).bytes : 0;
    return bytes;
}

static void unit_bring(struct zero__bring *x, uint32_t unit, struct zero__body *b)
{
    for (int grad = 0; grad < 2; grad++) {
        struct zero__moves moves = {.unit = unit};
        FOR_SEGMENTS (x->m, unit, i) {
            struct zero__part p = part_of(x, i, grad);
            if (!is_wanted(x, i, grad))
                continue;
            uint32_t id = zero__body_buffer(b, grad ? ZERO_CLASS_BUCKETS : ZERO_CLASS_GATHERED, i,
                                            ZERO_NONE, p.bytes);
            *(grad ? &x->of[i].grad : &x->of[i].param) = id;
            zero__moves_add(x->s, &moves,
                            &(struct zero__move){i, p.home, id, p.own_off, p.own_off, p.own_bytes});
        }
        zero__moves_load(x->s, &moves, b);
    }
    x->live += unit_bytes(x, unit);
}

static void unit_end(struct zero__bring *x, uint32_t unit, struct zero__body *b)
{
    uint32_t marked = b->n_ops;

    zero__moves_free(&x->back[unit], &marked, b);
    FOR_SEGMENTS (x->m, unit, i) {
        if (x->of[i].param != ZERO_NONE)
            zero__body_end(b, &marked, unit, x->of[i].param);
        if (x->of[i].grad != ZERO_NONE)
            zero__body_end(b, &marked, unit, x->of[i].grad);
    }
    x->live -= unit_bytes(x, unit);
}

void zero__bring_up_to(struct zero__bring *x, uint32_t unit, struct zero__body *b)
{
    for (; x->brought < x->m->n_units; x->brought++) {
        uint64_t bytes = unit_bytes(x, x->brought);
        while (x->live + bytes > x->r->prefetch_bytes && x->ended < x->stored)
            unit_end(x, x->ended++, b);
        if (x->brought > unit + 1 || (x->brought > unit && x->live + bytes > x->r->prefetch_bytes))
            return;
        unit_bring(x, x->brought, b);
    }
}

void zero__bring_back(struct zero__bring *x, uint32_t unit, struct zero__body *b)
{
    struct zero__moves *moves = &x->back[unit];

    moves->unit = unit;
    FOR_SEGMENTS (x->m, unit, i) {
        struct zero__part p = part_of(x, i, 0);
        if (x->of[i].param != ZERO_NONE)
            zero__moves_add(x->s, moves,
                            &(struct zero__move){i, p.home, x->of[i].param, 0, 0, p.bytes});
    }
    x->stored = unit + 1;
    zero__moves_store(x->s, moves, b);
}

void zero__bring_end(struct zero__bring *x, struct zero__body *b)
{
    while (x->ended < x->stored)
        unit_end(x, x->ended++, b);
}
