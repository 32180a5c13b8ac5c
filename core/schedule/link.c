/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link pass: derives the waits of a body from the bytes its ops touch, and keeps only those
 * that no other wait implies.
 *
 * What orders two ops without a wait: an op of the compute or cpu queue starts after the one before
 * it in its queue is done; an op of another queue starts after the one before it has started
 * and is known to be done only after it, too. With one vector clock per op (how many ops of each
 * queue are done when it starts), a conflict that the clock covers needs no wait. Every wait that
 * is left protects a conflict of its own: take it away and that conflict is a race.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/program.h"

struct clock {
    uint32_t done[ZERO__N_QUEUES];
};

struct range {
    uint64_t first, last; /* in the slab */
    uint32_t op;
    uint8_t tier, transient, write;
};

struct linker {
    const struct zero__states *s;
    struct zero__body *b;
    struct range *ranges; /* one per access, in list order */
    struct clock *start, *end;
    uint32_t *at[ZERO__N_QUEUES]; /* op index by queue and ordinal - 1 */
};

static int conflicts(const struct range *x, const struct range *y)
{
    return (x->write || y->write) && x->tier == y->tier && x->transient == y->transient &&
           x->first < y->last && y->first < x->last;
}

static void clock_join(struct clock *c, const struct clock *other)
{
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (other->done[q] > c->done[q])
            c->done[q] = other->done[q];
}

/* What is done when the op starts by the order of its own queue alone. */
static void clock_begin(const struct linker *l, const struct zero__op *op, struct clock *c)
{
    *c = (struct clock){{0}};
    if (op->ordinal < 2)
        return;
    uint32_t before = l->at[op->queue][op->ordinal - 2];
    *c = zero__queue_overlaps(op->queue) ? l->start[before] : l->end[before];
}

/* For each queue, the last op that conflicts with op i and is not known to be done. */
static void conflicts_find(const struct linker *l, uint32_t i, const struct clock *known,
                           struct clock *wanted)
{
    const struct zero__op *op = &l->b->ops[i];

    *wanted = (struct clock){{0}};
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        for (uint32_t e = 0; e < op->first_access; e++) {
            const struct zero__op *other = &l->b->ops[l->ranges[e].op];
            if (other->ordinal > known->done[other->queue] &&
                other->ordinal > wanted->done[other->queue] &&
                conflicts(&l->ranges[a], &l->ranges[e]))
                wanted->done[other->queue] = other->ordinal;
        }
    }
}

/* Drops what another wanted wait implies and appends the rest to the op. */
static int waits_add(struct linker *l, struct zero__op *op, struct clock *known,
                     const struct clock *wanted)
{
    struct zero__body *b = l->b;

    op->first_wait = b->n_waits;
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        int implied = wanted->done[q] == 0;
        for (uint32_t o = 0; o < ZERO__N_QUEUES && !implied; o++)
            if (o != q && wanted->done[o])
                implied = l->end[l->at[o][wanted->done[o] - 1]].done[q] >= wanted->done[q];
        if (implied)
            continue;
        if (zero__grow(&b->waits, &b->cap_waits, b->n_waits, sizeof *b->waits))
            return zero__fail(-ENOMEM, "no memory for a step program of %u waits", b->n_waits);
        b->waits[b->n_waits++] = (struct zero__wait){q, wanted->done[q]};
        op->n_waits++;
    }
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        if (wanted->done[q])
            clock_join(known, &l->end[l->at[q][wanted->done[q] - 1]]);
    return 0;
}

static int link_ops(struct linker *l)
{
    struct zero__body *b = l->b;

    for (uint32_t i = 0; i < b->n_ops; i++) {
        struct zero__op *op = &b->ops[i];
        struct clock wanted;

        if (op->queue == ZERO__Q_NONE)
            continue;
        clock_begin(l, op, &l->start[i]);
        conflicts_find(l, i, &l->start[i], &wanted);
        int err = waits_add(l, op, &l->start[i], &wanted);
        if (err)
            return err;
        l->end[i] = l->start[i];
        if (op->ordinal > 1) /* a queue's ops are reported done in order */
            clock_join(&l->end[i], &l->end[l->at[op->queue][op->ordinal - 2]]);
        l->end[i].done[op->queue] = op->ordinal;
    }
    return 0;
}

static void ranges_fill(struct linker *l)
{
    struct zero__body *b = l->b;

    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        if (op->ordinal)
            l->at[op->queue][op->ordinal - 1] = i;
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
            const struct zero__access *x = &b->accesses[a];
            const struct zero__buffer *f = zero__buffer_of(l->s, b, x->buffer);
            uint64_t first = f->offset + x->off;
            uint64_t bytes = op->queue == ZERO__Q_NONE ? 0 : x->bytes;
            l->ranges[a] =
                (struct range){first, first + bytes, i, f->tier, f->transient, x->write};
        }
    }
}

int zero__link_body(const struct zero__states *s, struct zero__body *b)
{
    struct linker l = {.s = s, .b = b};
    int err = -ENOMEM;

    l.ranges = calloc(b->n_accesses + 1, sizeof *l.ranges);
    l.start = calloc(b->n_ops + 1, sizeof *l.start);
    l.end = calloc(b->n_ops + 1, sizeof *l.end);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++) {
        l.at[q] = calloc(b->in_queue[q] + 1, sizeof **l.at);
        if (!l.at[q])
            goto out;
    }
    if (!l.ranges || !l.start || !l.end)
        goto out;
    ranges_fill(&l);
    err = link_ops(&l);
out:
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        free(l.at[q]);
    free(l.ranges);
    free(l.start);
    free(l.end);
    return err == -ENOMEM ? zero__fail(err, "no memory to link a step program of %u ops", b->n_ops)
                          : err;
}
