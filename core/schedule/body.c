/* SPDX-License-Identifier: Apache-2.0 */
/* Growing a body op by op, and the names of what is in it. */
#include "schedule/body.h"

#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"

void zero__body_op(struct zero__body *b, const struct zero__op *op)
{
    if (!b->err && zero__grow(&b->ops, &b->cap_ops, b->n_ops, sizeof *b->ops))
        b->err = zero__fail(-ENOMEM, "no memory for a step program of %u ops", b->n_ops);
    if (b->err)
        return;
    struct zero__op *o = &b->ops[b->n_ops];
    *o = *op;
    o->first_access = b->n_accesses;
    o->n_accesses = 0;
    o->ordinal = o->queue == ZERO__Q_NONE ? 0 : ++b->in_queue[o->queue];
    b->wire_bytes += o->wire_bytes;
    b->n_ops++;
}

void zero__body_access(struct zero__body *b, uint32_t buffer, uint32_t segment, uint32_t role,
                       int write, uint64_t off, uint64_t bytes)
{
    if (b->is_draft)
        return;
    if (!b->err && zero__grow(&b->accesses, &b->cap_accesses, b->n_accesses, sizeof *b->accesses))
        b->err = zero__fail(-ENOMEM, "no memory for a step program of %u accesses", b->n_accesses);
    if (b->err)
        return;
    b->accesses[b->n_accesses++] = (struct zero__access){
        buffer, segment, (uint8_t)role, (uint8_t)(write != 0), off, bytes};
    b->ops[b->n_ops - 1].n_accesses++;
}

void zero__body_pair(struct zero__body *b, uint32_t segment, uint32_t from, uint64_t from_off,
                     uint64_t from_bytes, uint32_t to, uint64_t to_off, uint64_t to_bytes)
{
    zero__body_access(b, from, segment, ZERO__R_SRC, 0, from_off, from_bytes);
    zero__body_access(b, to, segment, ZERO__R_DST, 1, to_off, to_bytes);
}

uint32_t zero__body_buffer(struct zero__body *b, uint32_t memory_class, uint32_t segment,
                           uint32_t declared, uint64_t bytes)
{
    if (!b->err && zero__grow(&b->buffers, &b->cap_buffers, b->n_buffers, sizeof *b->buffers))
        b->err = zero__fail(-ENOMEM, "no memory for a step program of %u buffers", b->n_buffers);
    if (b->err)
        return ZERO_NONE;
    b->buffers[b->n_buffers] = (struct zero__buffer){.memory_class = (uint8_t)memory_class,
                                                     .transient = 1,
                                                     .segment = segment,
                                                     .declared = declared,
                                                     .bytes = bytes,
                                                     .first = b->n_ops,
                                                     .last = b->n_ops};
    return b->n_homes + b->n_buffers++;
}

/* After an error a pass goes on, and what it says of buffers is forgotten. */
struct zero__buffer *zero__body_at(struct zero__body *b, uint32_t id)
{
    if (!b->err)
        return &b->buffers[id - b->n_homes];
    b->nowhere = (struct zero__buffer){0};
    return &b->nowhere;
}

void zero__body_end(struct zero__body *b, uint32_t *marked, uint32_t unit, uint32_t id)
{
    struct zero__op op = {.kind = ZERO__FREE, .queue = ZERO__Q_NONE, .unit = unit};

    if (*marked == b->n_ops) /* one marker for all that end here */
        zero__body_op(b, &op);
    struct zero__buffer *x = zero__body_at(b, id);
    x->last = *marked;
    zero__body_access(b, id, x->segment, ZERO__R_SRC, 0, 0, 0);
}

void zero__body_free(struct zero__body *b)
{
    free(b->ops);
    free(b->accesses);
    free(b->waits);
    free(b->buffers);
    free(b->declared);
    free(b->away);
    *b = (struct zero__body){0};
}

const char *zero__op_name(uint32_t kind)
{
    static const char *const names[ZERO__N_OPS] = {
        "gather", "compute", "fill",      "accumulate", "reduce",  "publish",
        "map",    "sumsq",   "total",     "norm",       "scalars", "fetch",
        "copy",   "update",  "writeback", "save",       "restore", "free"};
    return kind < ZERO__N_OPS ? names[kind] : "?";
}

const char *zero__queue_name(uint32_t queue)
{
    static const char *const names[ZERO__N_QUEUES + 1] = {
        "compute", "gather", "reduce", "cpu", "fetch", "writeback", "load", "store",
        "update", "host", "return", "-"};
    return queue <= ZERO__N_QUEUES ? names[queue] : "?";
}

const char *zero__tier_name(uint32_t tier)
{
    static const char *const names[ZERO__N_TIERS] = {"device", "cpu", "disk"};
    return tier < ZERO__N_TIERS ? names[tier] : "?";
}

const char *zero__class_name(uint32_t memory_class)
{
    static const char *const names[ZERO_N_CLASSES] = {
        "parameters", "gradients", "accumulators", "master",      "momentum",
        "variance",   "gathered",  "buckets",      "activations", "other"};
    return memory_class < ZERO_N_CLASSES ? names[memory_class] : "?";
}

const char *zero__body_name(uint32_t body)
{
    static const char *const names[ZERO__N_BODIES] = {"micro", "last micro", "update",
                                                      "evaluation"};
    return body < ZERO__N_BODIES ? names[body] : "?";
}
