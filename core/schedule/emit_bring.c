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

/* Bytes of a home and of its mirror on the device, and the part of them that the update reads. */
struct extent {
    uint32_t home;
    uint64_t bytes, own_off, own_bytes;
};

static struct extent extent_of(const struct zero__bring *x, uint32_t i, int grad)
{
    const struct zero__segment *g = &x->m->segments[i];
    const struct zero__gradient of = zero__gradient_of(x->m, x->r, x->s, i);
    const struct zero__home *h = &x->s->homes[i];
    uint64_t size = zero_dtype_bytes(g->dtype), shard = g->shard * size;

    if (grad)
        return (struct extent){of.home, of.bytes, of.used_off, of.used_bytes};
    return (struct extent){.home = h->param,
                           .bytes = h->param_whole ? g->padded * size : shard,
                           .own_off = h->param_whole && !h->state_whole ? shard * x->r->rank : 0,
                           .own_bytes = h->state_whole ? g->padded * size : shard};
}

static int is_wanted(const struct zero__bring *x, uint32_t i, int grad)
{
    const struct zero__segment *g = &x->m->segments[i];
    int on_device = zero__optimizer_tier(x->s, i) == ZERO__T_DEVICE;

    return g->trainable && zero__tier_of(x->s, extent_of(x, i, grad).home) != ZERO__T_DEVICE &&
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
            bytes += is_wanted(x, i, grad) ? extent_of(x, i, grad).bytes : 0;
    return bytes;
}

static void unit_bring(struct zero__bring *x, uint32_t unit, struct zero__body *b)
{
    for (int grad = 0; grad < 2; grad++) {
        struct zero__moves moves = {.unit = unit};
        FOR_SEGMENTS (x->m, unit, i) {
            struct extent e = extent_of(x, i, grad);
            if (!is_wanted(x, i, grad))
                continue;
            uint32_t id = zero__body_buffer(b, grad ? ZERO_CLASS_BUCKETS : ZERO_CLASS_GATHERED, i,
                                            ZERO_NONE, e.bytes);
            *(grad ? &x->of[i].grad : &x->of[i].param) = id;
            zero__moves_add(x->s, &moves,
                            &(struct zero__move){i, e.home, id, e.own_off, e.own_off, e.own_bytes});
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
        struct extent e = extent_of(x, i, 0);
        if (x->of[i].param != ZERO_NONE)
            zero__moves_add(x->s, moves,
                            &(struct zero__move){i, e.home, x->of[i].param, 0, 0, e.bytes});
    }
    x->stored = unit + 1;
    zero__moves_store(x->s, moves, b);
}

void zero__bring_end(struct zero__bring *x, struct zero__body *b)
{
    while (x->ended < x->stored)
        unit_end(x, x->ended++, b);
}
