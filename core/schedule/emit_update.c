/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The update body: squares of the rank's own part of every gradient that waits on the device (of
 * others they are taken when they leave it), the global norm from the ranks' sums, the step's
 * scalars, then the optimizer unit by unit, in forward order so that the first ones are whole again
 * first: by an all-gather in place, or by a barrier where peers' shards are mapped.
 */
#include "schedule/emit.h"
#include "schedule/emit_bring.h"

static void sumsq(const struct emit *e, uint32_t unit)
{
    int n = 0;

    FOR_TRAINABLE (e->m, unit, i) {
        struct zero__gradient g = zero__gradient_of(e->m, e->r, e->s, i);
        if (g.tier == ZERO__T_DEVICE && !e->s->homes[i].early)
            zero__sumsq_add(e, ZERO__Q_CPU, unit, i, g.home, g.own_off, g.own_bytes, n++ == 0);
    }
}

static void norm(const struct zero__recipe *r, const struct zero__states *s, struct zero__body *b)
{
    struct zero__op total = {.kind = ZERO__TOTAL, .queue = ZERO__Q_CPU, .unit = ZERO_NONE};
    struct zero__op norm = {.kind = ZERO__NORM, .queue = ZERO__Q_REDUCE, .unit = ZERO_NONE};
    struct zero__op scalars = {.kind = ZERO__SCALARS, .queue = ZERO__Q_CPU, .unit = ZERO_NONE};
    uint64_t one = sizeof(double), own = one * r->rank;

    zero__body_op(b, &total);
    zero__body_pair(b, ZERO_NONE, s->partials, 0, s->n_partials * sizeof(double), s->sums, own,
                    one);
    if (r->ranks > 1) {
        norm.wire_bytes = one * (r->ranks - 1);
        zero__body_op(b, &norm);
        zero__body_pair(b, ZERO_NONE, s->sums, own, one, s->sums, 0, one * r->ranks);
    }
    if (r->early) /* the scalars were made before the first update */
        return;
    zero__body_op(b, &scalars);
    zero__body_pair(b, ZERO_NONE, s->sums, 0, one * r->ranks, s->scalars, 0,
                    sizeof(struct zero_scalars));
}

static void update(const struct emit *e, const struct zero__brought *brought, uint32_t unit)
{
    struct zero__op op = {.kind = ZERO__UPDATE, .queue = ZERO__Q_CPU, .unit = unit};
    const struct zero__states *s = e->s;
    struct zero__body *b = e->b;
    int here = 0;

    FOR_TRAINABLE (e->m, unit, i)
        here |= zero__optimizer_tier(s, i) == ZERO__T_DEVICE;
    if (!here)
        return;
    zero__body_op(b, &op);
    zero__body_access(b, s->scalars, ZERO_NONE, ZERO__R_SRC, 0, 0, sizeof(struct zero_scalars));
    /*
     * The scalars of early updates do not come from the norm, which still is what tells that all
     * ranks are done with reading.
     */
    if (e->r->early)
        zero__body_access(b, s->sums, ZERO_NONE, ZERO__R_SRC, 0, 0, sizeof(double) * e->r->ranks);
    FOR_TRAINABLE (e->m, unit, i) {
        const struct zero__home *h = &s->homes[i];
        struct zero__gradient g = zero__gradient_of(e->m, e->r, s, i);
        struct zero__part p = zero__parameter_of(e->m, e->r, s, i);
        uint64_t count = h->state_whole ? e->m->segments[i].padded : e->m->segments[i].shard;
        uint64_t moment = zero__moment_bytes(e->r);
        if (zero__optimizer_tier(s, i) != ZERO__T_DEVICE)
            continue;
        zero__body_access(b, brought[i].grad == ZERO_NONE ? g.home : brought[i].grad, i,
                          ZERO__R_GRAD, 0, g.used_off, g.used_bytes);
        zero__body_access(b, brought[i].param == ZERO_NONE ? p.home : brought[i].param, i,
                          ZERO__R_PARAM, 1, p.own_off, p.own_bytes);
        if (h->master != ZERO_NONE)
            zero__body_access(b, h->master, i, ZERO__R_MASTER, 1, 0, count * 4);
        if (h->momentum != ZERO_NONE)
            zero__body_access(b, h->momentum, i, ZERO__R_MOMENTUM, 1, 0, count * moment);
        if (h->variance != ZERO_NONE)
            zero__body_access(b, h->variance, i, ZERO__R_VARIANCE, 1, 0, count * moment);
    }
}

static void publish(const struct emit *e, const struct zero__brought *brought, uint32_t unit)
{
    struct zero__op op = {.kind = ZERO__PUBLISH, .queue = ZERO__Q_GATHER, .unit = unit};

    FOR_SEGMENTS (e->m, unit, i)
        if (zero__publishes(e->r, &e->m->segments[i], &e->s->homes[i]))
            op.wire_bytes += zero__parameter_of(e->m, e->r, e->s, i).own_bytes * (e->r->ranks - 1);
    if (op.wire_bytes == 0)
        return;
    zero__body_op(e->b, &op);
    FOR_SEGMENTS (e->m, unit, i) {
        struct zero__part p = zero__parameter_of(e->m, e->r, e->s, i);
        uint32_t id = brought[i].param == ZERO_NONE ? p.home : brought[i].param;
        if (zero__publishes(e->r, &e->m->segments[i], &e->s->homes[i]))
            zero__body_pair(e->b, i, id, p.own_off, p.own_bytes, id, 0, p.bytes);
    }
}

/*
 * A unit's mapped parameters may be read once all ranks have updated their shards: a barrier, no
 * bytes. (The converse, that all ranks are done with reading before any updates, follows from the
 * norm: a rank sends its sum after its last compute op.) The op counts as a write of the shard, so
 * that whoever reads must be ordered after it.
 */
static void map(const struct emit *e, uint32_t unit)
{
    struct zero__op op = {.kind = ZERO__MAP, .queue = ZERO__Q_GATHER, .unit = unit};
    int n = 0;

    FOR_TRAINABLE (e->m, unit, i) {
        const struct zero__segment *g = &e->m->segments[i];
        const struct zero__home *h = &e->s->homes[i];
        if (!h->param_mapped)
            continue;
        if (n++ == 0)
            zero__body_op(e->b, &op);
        zero__body_access(e->b, h->param, i, ZERO__R_DST, 1, 0,
                          g->shard * zero_dtype_bytes(g->dtype));
    }
}

static void units_update(const struct emit *e, struct zero__bring *bring)
{
    const struct zero__brought *brought = zero__bring_places(bring);

    for (uint32_t u = 0; u < e->m->n_units; u++) {
        zero__bring_up_to(bring, u, e->b);
        if (zero__unit_trains(e->m, u))
            update(e, brought, u);
        zero__tiles_update(e->tiles, u, e->b);
        publish(e, brought, u);
        map(e, u);
        zero__bring_back(bring, u, e->b);
    }
    zero__bring_end(bring, e->b);
}

int zero__emit_update(const struct zero__model *m, const struct zero__recipe *r,
                      const struct zero__states *s, struct zero__body *b)
{
    struct emit e = {.m = m, .r = r, .s = s, .b = b};
    struct zero__bring *bring = NULL;
    int err = zero__bring_create(m, r, s, &bring);

    if (!err)
        err = zero__tiles_create(m, r, s, zero__bring_places(bring), NULL, m->n_units, 0, &e.tiles);
    if (err)
        goto out;
    b->n_homes = s->n_buffers;
    zero__tiles_begin(e.tiles, b);
    for (uint32_t u = 0; u < m->n_units; u++)
        if (zero__unit_trains(m, u))
            sumsq(&e, u);
    norm(r, s, b);
    units_update(&e, bring);
    err = b->err;
out:
    zero__tiles_free(e.tiles);
    zero__bring_free(bring);
    return err;
}
