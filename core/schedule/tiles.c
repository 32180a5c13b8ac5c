/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tile is a run of elements of the rank's part of one segment. What it has in the host's
 * memory:
 *
 *   gradient    copied from the device
 *   parameter   copied from the device and back: a step that is skipped and the gaps between
 *               parameters leave it as it was, and it may be its own master copy
 *   states      where they are, if that is the host; else fetched from the disk and written back
 *
 * Lives end at the marker behind the tile, so the plan gives the bytes to a tile further on, and
 * the link pass makes that one's fetch wait for this one's write.
 */
#include "schedule/tiles.h"

#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"

enum { N_STATES = 3 };

struct tile {
    uint32_t unit, segment;
    uint64_t first, count;
    uint32_t
        state[N_STATES]; /* fetched into; ZERO_NONE: it is used where it is, or there is none */
};

struct zero__tiles {
    const struct zero__model *m;
    const struct zero__recipe *r;
    const struct zero__states *s;
    struct tile *list;
    uint32_t n, capacity, fetched, updated;
};

static const struct {
    uint8_t memory_class, role;
} states[N_STATES] = {
    {ZERO_CLASS_MASTER, ZERO__R_MASTER},
    {ZERO_CLASS_MOMENTUM, ZERO__R_MOMENTUM},
    {ZERO_CLASS_VARIANCE, ZERO__R_VARIANCE},
};

static uint32_t state_home(const struct zero__states *s, uint32_t segment, uint32_t k)
{
    const struct zero__home *h = &s->homes[segment];
    const uint32_t ids[N_STATES] = {h->master, h->momentum, h->variance};

    return ids[k];
}

uint32_t zero__optimizer_tier(const struct zero__states *s, uint32_t segment)
{
    for (uint32_t k = 0; k < N_STATES; k++)
        if (state_home(s, segment, k) != ZERO_NONE)
            return s->buffers[state_home(s, segment, k)].tier;
    return ZERO__T_DEVICE;
}

static int segment_cut(struct zero__tiles *t, uint32_t unit, uint32_t segment)
{
    const struct zero__segment *g = &t->m->segments[segment];
    uint64_t count = t->s->homes[segment].state_whole ? g->padded : g->shard;

    for (uint64_t first = 0; first < count; first += t->r->tile) {
        if (zero__grow(&t->list, &t->capacity, t->n, sizeof *t->list))
            return zero__fail(-ENOMEM, "no memory for %u tiles", t->n);
        t->list[t->n++] = (struct tile){unit,
                                        segment,
                                        first,
                                        count - first < t->r->tile ? count - first : t->r->tile,
                                        {ZERO_NONE, ZERO_NONE, ZERO_NONE}};
    }
    return 0;
}

int zero__tiles_create(const struct zero__model *m, const struct zero__recipe *r,
                       const struct zero__states *s, struct zero__tiles **out)
{
    struct zero__tiles *t = calloc(1, sizeof *t);
    int err = t ? 0 : zero__fail(-ENOMEM, "no memory for a step program");

    for (uint32_t u = 0; u < m->n_units && !err; u++)
        for (uint32_t i = m->units[u].first_segment;
             i < m->units[u].first_segment + m->units[u].n_segments && !err; i++)
            if (m->segments[i].trainable && zero__optimizer_tier(s, i) != ZERO__T_DEVICE) {
                t->m = m;
                t->r = r;
                t->s = s;
                err = segment_cut(t, u, i);
            }
    if (err || !t->n) {
        zero__tiles_free(t);
        t = NULL;
    }
    if (!err)
        *out = t;
    return err;
}

void zero__tiles_free(struct zero__tiles *t)
{
    if (t)
        free(t->list);
    free(t);
}

static int host_buffer(struct zero__body *b, uint32_t memory_class, uint32_t segment,
                       uint64_t bytes, uint32_t *id)
{
    int err = zero__body_buffer(b, memory_class, segment, ZERO_NONE, bytes, id);

    if (!err)
        b->buffers[*id - b->n_homes].tier = ZERO__T_CPU;
    return err;
}

/* An op that moves bytes: pairs of what is read and what is written follow. */
static int move_op(struct zero__body *b, uint32_t kind, uint32_t queue, uint32_t unit)
{
    struct zero__op op = {.kind = (uint8_t)kind, .queue = (uint8_t)queue, .unit = unit};

    return zero__body_op(b, &op, NULL);
}

static int move_pair(struct zero__body *b, uint32_t segment, uint32_t from, uint64_t from_off,
                     uint32_t to, uint64_t to_off, uint64_t bytes)
{
    int err = zero__body_access(b, from, segment, ZERO__R_SRC, 0, from_off, bytes);

    return err ? err : zero__body_access(b, to, segment, ZERO__R_DST, 1, to_off, bytes);
}

static int fetch(struct zero__tiles *t, struct tile *x, struct zero__body *b)
{
    int err;

    if (zero__optimizer_tier(t->s, x->segment) != ZERO__T_DISK)
        return 0;
    /* Buffers live from this op on, so they come before it. */
    for (uint32_t k = 0; k < N_STATES; k++) {
        if (state_home(t->s, x->segment, k) == ZERO_NONE)
            continue;
        err = host_buffer(b, states[k].memory_class, x->segment, x->count * 4, &x->state[k]);
        if (err)
            return err;
    }
    err = move_op(b, ZERO__FETCH, ZERO__Q_FETCH, x->unit);
    for (uint32_t k = 0; k < N_STATES && !err; k++)
        if (x->state[k] != ZERO_NONE)
            err = move_pair(b, x->segment, state_home(t->s, x->segment, k), x->first * 4,
                            x->state[k], 0, x->count * 4);
    return err;
}

static int fetch_up_to(struct zero__tiles *t, uint32_t n, struct zero__body *b)
{
    int err = 0;

    while (t->fetched < n && t->fetched < t->n && !err)
        err = fetch(t, &t->list[t->fetched++], b);
    return err;
}

static int writeback(const struct zero__tiles *t, const struct tile *x, struct zero__body *b)
{
    int err;

    if (zero__optimizer_tier(t->s, x->segment) != ZERO__T_DISK)
        return 0;
    err = move_op(b, ZERO__WRITEBACK, ZERO__Q_WRITEBACK, x->unit);
    for (uint32_t k = 0; k < N_STATES && !err; k++)
        if (x->state[k] != ZERO_NONE)
            err = move_pair(b, x->segment, x->state[k], 0, state_home(t->s, x->segment, k),
                            x->first * 4, x->count * 4);
    return err;
}

/* Where the tile's gradients and parameters lie on the device. */
struct ends {
    uint32_t grad, param;
    uint64_t grad_off, grad_bytes, param_off, param_bytes;
};

static struct ends ends_of(const struct zero__tiles *t, const struct tile *x)
{
    const struct zero__segment *g = &t->m->segments[x->segment];
    const struct zero__home *h = &t->s->homes[x->segment];
    int acc = t->r->accum > 1, grad_whole = (int)(acc ? h->acc_whole : h->grad_whole);
    uint64_t size = zero_dtype_bytes(g->dtype), grad_size = acc ? 4 : size;
    uint64_t own = h->state_whole ? 0 : g->shard * t->r->rank; /* the part's place in the segment */

    return (struct ends){.grad = acc ? h->acc : h->grad,
                         .param = h->param,
                         .grad_off = (x->first + (grad_whole ? own : 0)) * grad_size,
                         .grad_bytes = x->count * grad_size,
                         .param_off = (x->first + (h->param_whole ? own : 0)) * size,
                         .param_bytes = x->count * size};
}

static int update_op(const struct zero__tiles *t, const struct tile *x, uint32_t grad,
                     uint32_t param, const struct ends *e, struct zero__body *b)
{
    struct zero__op op = {
        .kind = ZERO__UPDATE, .queue = ZERO__Q_CPU, .unit = x->unit, .first = x->first};
    int err = zero__body_op(b, &op, NULL);

    if (!err)
        err = zero__body_access(b, t->s->scalars, ZERO_NONE, ZERO__R_SRC, 0, 0,
                                sizeof(struct zero_scalars));
    if (!err)
        err = zero__body_access(b, grad, x->segment, ZERO__R_GRAD, 0, 0, e->grad_bytes);
    if (!err)
        err = zero__body_access(b, param, x->segment, ZERO__R_PARAM, 1, 0, e->param_bytes);
    for (uint32_t k = 0; k < N_STATES && !err; k++) {
        uint32_t home = state_home(t->s, x->segment, k);
        int fetched = x->state[k] != ZERO_NONE;
        if (home != ZERO_NONE)
            err = zero__body_access(b, fetched ? x->state[k] : home, x->segment, states[k].role, 1,
                                    fetched ? 0 : x->first * 4, x->count * 4);
    }
    return err;
}

static int free_buffers(const struct tile *x, uint32_t grad, uint32_t param, struct zero__body *b)
{
    uint32_t ids[] = {grad, param, x->state[0], x->state[1], x->state[2]};
    int err = move_op(b, ZERO__FREE, ZERO__Q_NONE, x->unit);

    for (uint32_t i = 0; i < sizeof ids / sizeof *ids && !err; i++) {
        if (ids[i] == ZERO_NONE)
            continue;
        b->buffers[ids[i] - b->n_homes].last = b->n_ops - 1;
        err = zero__body_access(b, ids[i], x->segment, ZERO__R_SRC, 0, 0, 0);
    }
    return err;
}

static int update(const struct zero__tiles *t, const struct tile *x, struct zero__body *b)
{
    struct ends e = ends_of(t, x);
    uint32_t grad, param, i = x->segment;
    int err = host_buffer(b, ZERO_CLASS_GRADIENTS, i, e.grad_bytes, &grad);

    if (!err)
        err = host_buffer(b, ZERO_CLASS_PARAMETERS, i, e.param_bytes, &param);
    if (!err)
        err = move_op(b, ZERO__COPY, ZERO__Q_CPU, x->unit);
    if (!err)
        err = move_pair(b, i, e.grad, e.grad_off, grad, 0, e.grad_bytes);
    if (!err)
        err = move_pair(b, i, e.param, e.param_off, param, 0, e.param_bytes);
    if (!err)
        err = update_op(t, x, grad, param, &e, b);
    if (!err)
        err = move_op(b, ZERO__COPY, ZERO__Q_CPU, x->unit);
    if (!err)
        err = move_pair(b, i, param, 0, e.param, e.param_off, e.param_bytes);
    if (!err)
        err = writeback(t, x, b);
    return err ? err : free_buffers(x, grad, param, b);
}

int zero__tiles_begin(struct zero__tiles *t, struct zero__body *b)
{
    return t ? fetch_up_to(t, t->r->tiles, b) : 0;
}

int zero__tiles_update(struct zero__tiles *t, uint32_t unit, struct zero__body *b)
{
    int err = 0;

    while (t && t->updated < t->n && t->list[t->updated].unit == unit && !err) {
        err = update(t, &t->list[t->updated], b);
        t->updated++;
        if (!err) /* into the place that has just become free */
            err = fetch_up_to(t, t->updated + t->r->tiles, b);
    }
    return err;
}
