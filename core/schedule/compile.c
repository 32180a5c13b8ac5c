/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the passes over the four bodies. Every rank compiles for itself: the passes are integer
 * arithmetic with fixed tie-breaks and budgets counted in nodes, so ranks agree; the engine
 * compares hashes before it runs a program.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "schedule/passes.h"

/*
 * The hash covers what ranks must agree on: not the offsets of a rank's own part, nor what follows
 * from them, which are the pages that it moves to and from its disk, and its waits.
 */
static void body_hash(const struct zero__body *b, XXH3_state_t *h)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct zero__op *op = &b->ops[i];
        uint64_t x[] = {op->kind, op->queue,   op->pass,       op->flags,
                        op->unit, op->ordinal, op->wire_bytes, op->first};
        int moves =
            op->kind == ZERO__FETCH || op->kind == ZERO__COPY || op->kind == ZERO__WRITEBACK;
        XXH3_64bits_update(h, x, sizeof x);
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
            const struct zero__access *c = &b->accesses[a];
            uint64_t y[] = {c->buffer, c->segment, c->role, c->write, moves ? 0 : c->bytes};
            XXH3_64bits_update(h, y, sizeof y);
        }
    }
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        int own = b->buffers[i].tier != ZERO__T_DEVICE;
        uint64_t z[] = {own ? 0 : b->buffers[i].bytes, own ? 0 : b->buffers[i].offset,
                        b->buffers[i].memory_class, b->buffers[i].tier};
        XXH3_64bits_update(h, z, sizeof z);
    }
}

static int body_emit(const struct zero__model *m, const struct zero__recipe *r,
                     const struct zero__states *s, struct zero__program *p, uint32_t body)
{
    struct zero__body *b = &p->bodies[body];

    switch (body) {
    case ZERO__MICRO:
        if (r->accum == 1)
            return 0; /* every micro-batch is the last */
        return zero__emit_train(m, r, s, p->uses[ZERO_TRAIN], p->n_uses[ZERO_TRAIN], 0, b);
    case ZERO__LAST:
        return zero__emit_train(m, r, s, p->uses[ZERO_TRAIN], p->n_uses[ZERO_TRAIN], 1, b);
    case ZERO__UPDATE_BODY:
        return zero__emit_update(m, r, s, b);
    default:
        return zero__emit_train(m, r, s, p->uses[ZERO_EVAL], p->n_uses[ZERO_EVAL], 0, b);
    }
}

int zero__body_follows(const struct zero__recipe *r, uint32_t body)
{
    return body == ZERO__EVALUATION || body == (r->accum > 1 ? ZERO__MICRO : ZERO__LAST);
}

/* The first two passes. */
static int body_plan(const struct zero__model *m, const struct zero__recipe *r,
                     const struct zero__states *s, struct zero__program *p, uint32_t body,
                     uint64_t plan_nodes, uint32_t threads)
{
    struct zero__body *b = &p->bodies[body];
    int err = body_emit(m, r, s, p, body);

    if (!err)
        err = zero__plan_body(b, plan_nodes, threads);
    for (uint32_t t = 0; t < ZERO__N_TIERS; t++)
        if (b->height[t] > p->transient_bytes[t])
            p->transient_bytes[t] = b->height[t];
    return err;
}

static int body_compile(const struct zero__model *m, const struct zero__recipe *r,
                        const struct zero__states *s, struct zero__program *p, uint32_t body,
                        uint64_t plan_nodes, uint32_t threads)
{
    const struct zero__body *update =
        zero__body_follows(r, body) ? &p->bodies[ZERO__UPDATE_BODY] : NULL;
    int err = body_plan(m, r, s, p, body, plan_nodes, threads);

    if (!err)
        err = zero__link_body(s, update, &p->bodies[body]);
    return err ? zero__while(err, "body %s", zero__body_name(body)) : 0;
}

static int orders_copy(const struct zero__model *m, struct zero__program *p)
{
    for (uint32_t k = 0; k < 2; k++) {
        p->n_uses[k] = m->orders[k].n;
        p->uses[k] = malloc((m->orders[k].n + 1) * sizeof *p->uses[k]);
        if (!p->uses[k])
            return zero__fail(-ENOMEM, "no memory for a step program");
        memcpy(p->uses[k], m->orders[k].uses, m->orders[k].n * sizeof *p->uses[k]);
    }
    return 0;
}

int zero__program_compile(const struct zero__model *m, const struct zero__recipe *r,
                          const struct zero__states *s, uint64_t plan_nodes, uint32_t threads,
                          struct zero__program **program)
{
    struct zero__program *p = calloc(1, sizeof *p);
    static const uint32_t order[ZERO__N_BODIES] = {ZERO__UPDATE_BODY, ZERO__MICRO, ZERO__LAST,
                                                   ZERO__EVALUATION}; /* which wait for the first */
    XXH3_state_t *h = XXH3_createState();
    int err = p && h ? 0 : zero__fail(-ENOMEM, "no memory for a step program");

    if (!err)
        err = orders_copy(m, p);
    if (!err)
        XXH3_64bits_reset(h);
    for (uint32_t i = 0; !err && i < ZERO__N_BODIES; i++)
        err = body_compile(m, r, s, p, order[i], plan_nodes, threads);
    for (uint32_t i = 0; !err && i < ZERO__N_BODIES; i++)
        body_hash(&p->bodies[i], h);
    if (!err)
        p->hash = XXH3_64bits_digest(h);
    if (h)
        XXH3_freeState(h);
    if (err) {
        zero__program_free(p);
        return err;
    }
    *program = p;
    return 0;
}

/* Drafts, not linked, and no search for the last bytes: comparing recipes takes many programs. */
int zero__program_measure(const struct zero__model *m, const struct zero__recipe *r,
                          const struct zero__states *s, uint64_t bytes[ZERO__N_TIERS])
{
    struct zero__program *p = calloc(1, sizeof *p);
    int err = p ? orders_copy(m, p) : zero__fail(-ENOMEM, "no memory for a step program");

    for (uint32_t i = 0; i < ZERO__N_BODIES && !err; i++) {
        p->bodies[i].is_draft = 1;
        err = body_plan(m, r, s, p, i, 0, 1);
    }
    if (!err)
        memcpy(bytes, p->transient_bytes, sizeof p->transient_bytes);
    zero__program_free(p);
    return err;
}

void zero__program_free(struct zero__program *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < ZERO__N_BODIES; i++)
        zero__body_free(&p->bodies[i]);
    free(p->uses[0]);
    free(p->uses[1]);
    free(p);
}
