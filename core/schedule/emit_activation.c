/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations that leave the device between the use that produces them and the use that consumes
 * them (ZeRO-R). Each has two buffers on the device, one for each of these uses, and one in the
 * tier where it lies meanwhile, which is its own for the whole body: a step that leaves the order
 * finds it there. To a disk it goes by way of the host's memory, through buffers that end as soon
 * as they can.
 *
 *     forward    compute, save (, writeback)
 *     backward   (fetch, ) restore, compute
 *
 * A save reads the device's buffer while later uses compute. The buffer ends AGE uses later, or
 * earlier when more than move_limit bytes are leaving; whoever gets its room waits for the save,
 * because the two touch the same bytes. A restore is listed at most NEAR uses, a fetch from a disk
 * FAR uses, before the use that consumes, and at most move_limit bytes ahead of it: the largest
 * activation, or prefetch_bytes if that is more. Without prefetching nothing is ahead of anything.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/emit.h"

#define AGE 2u
#define NEAR 2u
#define FAR 4u

static uint64_t bytes_of(const struct emit *e, uint32_t i)
{
    return e->m->buffers[i].desc.bytes;
}

static uint32_t away_tier(const struct emit *e, uint32_t i)
{
    return zero__body_at(e->b, e->b->away[i])->tier;
}

/* Nothing would be gained by moving what has to be back before its room could be had. */
static int could_leave(const struct emit *e, uint32_t i)
{
    uint32_t least = e->r->prefetch_bytes ? AGE + NEAR : 1;

    return e->m->buffers[i].activation && e->lives[i].first != ZERO_NONE &&
           e->lives[i].last > e->lives[i].first + least;
}

/* `middle`: where in what could leave the activation's middle lies, as a part of 1. */
static uint32_t tier_at(const struct emit *e, double middle)
{
    const uint16_t *parts = e->r->placed[ZERO__P_ACTIVATIONS];
    double end = 0;

    for (uint32_t t = 0; t < ZERO__N_TIERS; t++) {
        end += parts[t];
        if (middle * ZERO__PLACE_PARTS < end)
            return t;
    }
    return ZERO__T_DEVICE; /* nothing is said of activations */
}

/*
 * The tier of each activation that could leave; of all others the device. The last produced part of
 * all that could leave stays on the device, the next goes to the host.
 */
static void tiers_find(const struct emit *e, uint8_t *tiers)
{
    double all = 0, later = 0;

    for (uint32_t i = 0; i < e->m->n_buffers; i++) {
        tiers[i] = ZERO__T_DEVICE;
        all += could_leave(e, i) ? (double)bytes_of(e, i) : 0;
    }
    for (uint32_t use = e->n_uses; use-- > 0;)
        for (uint32_t k = e->ends.first[use + 1]; k-- > e->ends.first[use];) {
            uint32_t i = e->ends.items[k] / 2;
            if (e->lives[i].first != use || !could_leave(e, i))
                continue;
            tiers[i] = (uint8_t)tier_at(e, (later + (double)bytes_of(e, i) / 2) / all);
            later += (double)bytes_of(e, i);
        }
}

static uint32_t buffer(struct emit *e, uint32_t i, uint32_t tier)
{
    uint32_t id = zero__body_buffer(e->b, ZERO_CLASS_ACTIVATIONS, ZERO_NONE, i, bytes_of(e, i));

    zero__body_at(e->b, id)->tier = (uint8_t)tier;
    return id;
}

/*
 * In the order in which they are consumed; of one use, as they were declared. `tiers`: of all
 * declared buffers.
 */
static int lists_make(struct emit *e, const uint8_t *tiers)
{
    uint32_t n = e->m->n_buffers, *first = zero__all_ones(n, sizeof *first);
    uint32_t *last = zero__all_ones(n, sizeof *last);
    int err = first && last ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < n && !err; i++) {
        if (tiers[i] == ZERO__T_DEVICE)
            continue;
        first[i] = e->lives[i].first;
        last[i] = e->lives[i].last;
        e->n_returns++;
    }
    if (!err)
        err = zero__lists_make(&e->returns, e->n_uses, last, NULL, n);
    if (!err)
        err = zero__lists_make(&e->leaves, e->n_uses, first, e->returns.items, e->n_returns);
    free(first);
    free(last);
    return err;
}

int zero__saves_begin(struct emit *e)
{
    size_t n = (size_t)e->m->n_buffers + 1;
    uint8_t *tiers = malloc(n);

    e->stage = malloc(n * sizeof *e->stage);
    e->leaving.list = malloc(n * sizeof *e->leaving.list);
    e->leaving_host.list = malloc(n * sizeof *e->leaving_host.list);
    if (tiers)
        tiers_find(e, tiers);
    if (!tiers || !e->stage || !e->leaving.list || !e->leaving_host.list || lists_make(e, tiers)) {
        free(tiers);
        return zero__fail(-ENOMEM, "no memory for %u activations", e->m->n_buffers);
    }
    if (e->r->prefetch_bytes)
        e->move_limit = e->r->prefetch_bytes;
    for (uint32_t i = 0; i < e->m->n_buffers; i++) {
        if (tiers[i] == ZERO__T_DEVICE)
            continue;
        if (e->r->prefetch_bytes && bytes_of(e, i) > e->move_limit)
            e->move_limit = bytes_of(e, i);
        e->b->away[i] = buffer(e, i, tiers[i]);
    }
    free(tiers);
    return e->b->err;
}

void zero__saves_end(struct emit *e)
{
    zero__lists_free(&e->returns);
    zero__lists_free(&e->leaves);
    free(e->stage);
    free(e->leaving.list);
    free(e->leaving_host.list);
}

static void move(struct emit *e, uint32_t kind, uint32_t queue, uint32_t unit, uint32_t from,
                 uint32_t to, uint64_t bytes)
{
    struct zero__op op = {.kind = (uint8_t)kind, .queue = (uint8_t)queue, .unit = unit};

    zero__body_op(e->b, &op);
    zero__body_pair(e->b, ZERO_NONE, from, 0, bytes, to, 0, bytes);
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static void leaving_add(struct emit *e, struct emit_leaving *l, uint32_t id, uint32_t use)
{
    l->list[l->tail++] = (struct emit_left){id, use};
    l->bytes += zero__body_at(e->b, id)->bytes;
}

/* Ends what is too old at this use, or too much. */
static void leaving_end(struct emit *e, struct emit_leaving *l, uint32_t use, uint32_t *marked)
{
    for (; l->head < l->tail; l->head++) {
        const struct emit_left *x = &l->list[l->head];
        if (l->bytes <= e->move_limit && use < x->use + AGE)
            break;
        l->bytes -= zero__body_at(e->b, x->id)->bytes;
        zero__body_end(e->b, marked, e->uses[x->use].unit, x->id);
    }
}

static void save(struct emit *e, uint32_t i, uint32_t use)
{
    uint32_t unit = e->uses[use].unit, device = e->b->declared[i], away = e->b->away[i];
    uint64_t bytes = bytes_of(e, i);

    if (away_tier(e, i) != ZERO__T_DISK) {
        move(e, ZERO__SAVE, ZERO__Q_STORE, unit, device, away, bytes);
    } else {
        uint32_t stage = buffer(e, i, ZERO__T_CPU);
        move(e, ZERO__SAVE, ZERO__Q_STORE, unit, device, stage, bytes);
        move(e, ZERO__WRITEBACK, ZERO__Q_WRITEBACK, unit, stage, away, bytes);
        leaving_add(e, &e->leaving_host, stage, use);
    }
    leaving_add(e, &e->leaving, device, use);
}

void zero__saves_leave(struct emit *e, uint32_t use)
{
    for (const uint32_t *i = zero__list_begin(&e->leaves, use); i < zero__list_end(&e->leaves, use);
         i++)
        save(e, *i, use);
    uint32_t marked = e->b->n_ops;
    leaving_end(e, &e->leaving, use, &marked);
    leaving_end(e, &e->leaving_host, use, &marked);
}

void zero__saves_finish(struct emit *e)
{
    uint32_t marked = e->b->n_ops;

    leaving_end(e, &e->leaving, e->n_uses + AGE, &marked);
    leaving_end(e, &e->leaving_host, e->n_uses + AGE, &marked);
    for (uint32_t k = 0; k < e->n_returns; k++) { /* what is away is there all the time */
        struct zero__buffer *x = zero__body_at(e->b, e->b->away[e->returns.items[k]]);
        x->first = 0;
        x->last = e->b->n_ops;
    }
}

/* ---- Returning ------------------------------------------------------------------------------- */

/* May activation i come back before use `use`, `near` uses ahead of its own, with `bytes` ahead? */
static int is_wanted(const struct emit *e, uint32_t i, uint32_t use, uint32_t near, uint64_t bytes)
{
    if (e->lives[i].first >= use)
        return 0; /* it has not been saved */
    return e->lives[i].last == use ||
           (e->lives[i].last <= use + near && bytes + bytes_of(e, i) <= e->move_limit);
}

static void fetch(struct emit *e, uint32_t i)
{
    if (away_tier(e, i) != ZERO__T_DISK)
        return;
    e->staged += bytes_of(e, i);
    e->stage[i] = buffer(e, i, ZERO__T_CPU);
    move(e, ZERO__FETCH, ZERO__Q_FETCH, e->uses[e->lives[i].last].unit, e->b->away[i], e->stage[i],
         bytes_of(e, i));
}

static void restore(struct emit *e, uint32_t i)
{
    uint32_t unit = e->uses[e->lives[i].last].unit, marked;
    int disk = away_tier(e, i) == ZERO__T_DISK;

    e->b->declared[i] = buffer(e, i, ZERO__T_DEVICE);
    move(e, ZERO__RESTORE, ZERO__Q_LOAD, unit, disk ? e->stage[i] : e->b->away[i],
         e->b->declared[i], bytes_of(e, i));
    if (!disk)
        return;
    marked = e->b->n_ops;
    e->staged -= bytes_of(e, i);
    zero__body_end(e->b, &marked, unit, e->stage[i]);
}

/* Lists what comes back while use `use` computes, and what it consumes itself. */
void zero__saves_return(struct emit *e, uint32_t use)
{
    uint32_t before;

    for (uint32_t k = e->returns.first[use]; k < e->returns.first[use + 1]; k++)
        if (k < e->next_return) /* it came ahead, and now is used */
            e->returned -= bytes_of(e, e->returns.items[k]);
    do {
        before = e->next_fetch + e->next_return;
        while (e->next_fetch < e->n_returns &&
               is_wanted(e, e->returns.items[e->next_fetch], use, FAR, e->staged))
            fetch(e, e->returns.items[e->next_fetch++]);
        while (e->next_return < e->next_fetch &&
               is_wanted(e, e->returns.items[e->next_return], use, NEAR, e->returned)) {
            uint32_t i = e->returns.items[e->next_return++];
            e->returned += e->lives[i].last > use ? bytes_of(e, i) : 0;
            restore(e, i);
        }
    } while (e->next_fetch + e->next_return > before);
}

/* ---- Out of order ---------------------------------------------------------------------------- */

int zero__emit_move(const struct zero__model *m, const struct zero__states *s,
                    const struct zero__body *planned, uint32_t declared, uint64_t at, int out,
                    struct zero__body *b)
{
    struct emit e = {.m = m, .s = s, .b = b};
    const struct zero_buffer_desc *d = &m->buffers[declared].desc;
    uint32_t device, away;

    b->n_homes = s->n_buffers;
    device = buffer(&e, declared, ZERO__T_DEVICE);
    away = buffer(&e, declared, ZERO__T_CPU);
    zero__body_at(b, device)->offset = at;
    zero__body_at(b, away)->offset = zero__buffer_of(s, planned, planned->away[declared])->offset;
    if (out)
        move(&e, ZERO__SAVE, ZERO__Q_STORE, d->from_unit, device, away, d->bytes);
    else
        move(&e, ZERO__RESTORE, ZERO__Q_LOAD, d->to_unit, away, device, d->bytes);
    return b->err;
}
