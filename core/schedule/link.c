/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link pass: derives the waits of a body from the bytes its ops touch, and keeps only those
 * that no other wait implies.
 *
 * What orders two ops without a wait: in a queue whose ops do not overlap an op starts after the
 * one before it is done (zero__queue_overlaps()); in another one it starts after the one before it
 * has started and is known to be done only after it, too. With one vector clock per op (how many
 * ops of each queue are done when it starts), a conflict that the clock covers needs no wait. Every
 * wait that is left protects a conflict of its own: take it away and that conflict is a race.
 *
 * A body that follows an update is linked as if it were the end of one list with it: before its
 * first op all queues of the update are empty but those that go on behind.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/passes.h"
#include "schedule/touched.h"

struct clock {
    uint32_t done[ZERO__N_QUEUES]; /* ops of the update and of the body together */
};

struct linker {
    const struct zero__states *s;
    const struct zero__body *u; /* the update before, maybe an empty one */
    struct zero__body *b;
    struct zero__touched touched;
    struct clock *start, *end;
    struct clock host;            /* what is done before the body's first op */
    uint32_t *at[ZERO__N_QUEUES]; /* place in the list by queue and ordinal - 1 */
};

static const struct zero__body *body_at(const struct linker *l, uint32_t i)
{
    return i < l->u->n_ops ? l->u : l->b;
}

static const struct zero__op *op_at(const struct linker *l, uint32_t i)
{
    return i < l->u->n_ops ? &l->u->ops[i] : &l->b->ops[i - l->u->n_ops];
}

/* Among the ops of its queue in the whole list. */
static uint32_t ordinal_at(const struct linker *l, uint32_t i)
{
    const struct zero__op *op = op_at(l, i);
    return op->ordinal + (i < l->u->n_ops ? 0 : l->u->in_queue[op->queue]);
}

static void clock_join(struct clock *c, const struct clock *other)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (other->done[q] > c->done[q])
            c->done[q] = other->done[q];
}

/* What is done when the op starts by the order of its own queue, and the host's, alone. */
static void clock_begin(const struct linker *l, uint32_t i, struct clock *c)
{
    uint32_t ordinal = ordinal_at(l, i), queue = op_at(l, i)->queue;

    *c = i < l->u->n_ops ? (struct clock){{0}} : l->host;
    if (ordinal < 2)
        return;
    uint32_t before = l->at[queue][ordinal - 2];
    clock_join(c, zero__queue_overlaps(queue) ? &l->start[before] : &l->end[before]);
}

/* After its start has been settled. */
static void clock_finish(const struct linker *l, uint32_t i)
{
    uint32_t ordinal = ordinal_at(l, i), queue = op_at(l, i)->queue;

    l->end[i] = l->start[i];
    if (ordinal > 1) /* a queue's ops are reported done in order */
        clock_join(&l->end[i], &l->end[l->at[queue][ordinal - 2]]);
    l->end[i].done[queue] = ordinal;
}

/* For each queue, the last op that conflicts with op i and is not known to be done. */
static void conflicts_find(const struct linker *l, uint32_t i, const struct clock *known,
                           struct clock *wanted)
{
    const struct zero__body *b = body_at(l, i);
    const struct zero__op *op = op_at(l, i);

    *wanted = (struct clock){{0}};
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        struct zero__access x = zero__access_whole(op, &b->accesses[a]);
        zero__touched_find(&l->touched, zero__buffer_of(l->s, b, x.buffer), &x, wanted->done);
    }
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (wanted->done[q] <= known->done[q])
            wanted->done[q] = 0;
}

/* Op i has its place; what comes behind it may conflict with it. */
static void accesses_note(struct linker *l, uint32_t i)
{
    const struct zero__body *b = body_at(l, i);
    const struct zero__op *op = op_at(l, i);

    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        struct zero__access x = zero__access_whole(op, &b->accesses[a]);
        zero__touched_note(&l->touched, zero__buffer_of(l->s, b, x.buffer), &x, op->queue,
                           ordinal_at(l, i));
    }
}

/* Drops what another wanted wait implies and appends the rest to the op. */
static int waits_add(struct linker *l, struct zero__op *op, struct clock *known,
                     const struct clock *wanted)
{
    struct zero__body *b = l->b;

    op->first_wait = b->n_waits;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        uint32_t behind = wanted->done[q] <= l->u->in_queue[q];
        int implied = wanted->done[q] == 0;
        for (uint32_t o = 0; o < ZERO__N_QUEUES && !implied; o++)
            if (o != q && wanted->done[o])
                implied = l->end[l->at[o][wanted->done[o] - 1]].done[q] >= wanted->done[q];
        if (implied)
            continue;
        if (zero__grow(&b->waits, &b->cap_waits, b->n_waits, sizeof *b->waits))
            return zero__fail(-ENOMEM, "no memory for a step program of %u waits", b->n_waits);
        b->waits[b->n_waits++] =
            (struct zero__wait){q, wanted->done[q] - (behind ? 0 : l->u->in_queue[q]), behind};
        op->n_waits++;
    }
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (wanted->done[q])
            clock_join(known, &l->end[l->at[q][wanted->done[q] - 1]]);
    return 0;
}

/* The update is linked already: its clocks follow from its waits. */
static void update_replay(struct linker *l)
{
    for (uint32_t i = 0; i < l->u->n_ops; i++) {
        const struct zero__op *op = &l->u->ops[i];
        if (op->queue == ZERO__Q_NONE)
            continue;
        clock_begin(l, i, &l->start[i]);
        for (uint32_t w = op->first_wait; w < op->first_wait + op->n_waits; w++) {
            const struct zero__wait *x = &l->u->waits[w];
            clock_join(&l->start[i], &l->end[l->at[x->queue][x->ordinal - 1]]);
        }
        clock_finish(l, i);
        accesses_note(l, i);
    }
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (!zero__queue_is_behind(q) && l->u->in_queue[q])
            clock_join(&l->host, &l->end[l->at[q][l->u->in_queue[q] - 1]]);
}

static int link_ops(struct linker *l)
{
    uint32_t n_u = l->u->n_ops;

    for (uint32_t i = n_u; i < n_u + l->b->n_ops; i++) {
        struct zero__op *op = &l->b->ops[i - n_u];
        struct clock wanted;

        if (op->queue == ZERO__Q_NONE)
            continue;
        clock_begin(l, i, &l->start[i]);
        conflicts_find(l, i, &l->start[i], &wanted);
        int err = waits_add(l, op, &l->start[i], &wanted);
        if (err)
            return err;
        clock_finish(l, i);
        accesses_note(l, i);
    }
    return 0;
}

/* Where the ops of each queue stand in the list. */
static void places_fill(struct linker *l)
{
    for (uint32_t i = 0; i < l->u->n_ops + l->b->n_ops; i++)
        if (op_at(l, i)->ordinal)
            l->at[op_at(l, i)->queue][ordinal_at(l, i) - 1] = i;
}

int zero__link_body(const struct zero__states *s, const struct zero__body *update,
                    struct zero__body *b)
{
    static const struct zero__body nothing;
    struct linker l = {.s = s, .u = update ? update : &nothing, .b = b};
    size_t n_ops = (size_t)l.u->n_ops + b->n_ops + 1;
    int err = -ENOMEM;

    l.start = calloc(n_ops, sizeof *l.start);
    l.end = calloc(n_ops, sizeof *l.end);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        l.at[q] = calloc((size_t)l.u->in_queue[q] + b->in_queue[q] + 1, sizeof **l.at);
        if (!l.at[q])
            goto out;
    }
    if (!l.start || !l.end || zero__touched_make(&l.touched, s, l.u, b))
        goto out;
    places_fill(&l);
    update_replay(&l);
    err = link_ops(&l);
out:
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        free(l.at[q]);
    zero__touched_free(&l.touched);
    free(l.start);
    free(l.end);
    return err == -ENOMEM ? zero__fail(err, "no memory to link a step program of %u ops", b->n_ops)
                          : err;
}
