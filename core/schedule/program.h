/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step program: what a step is made of, and the one data structure that engine, memory plan,
 * checker, trace and dump are functions of.
 *
 * Vocabulary:
 *   recipe   the options that shape a program (stage, ranks, accumulation, budgets)
 *   home     a region of the states, alive as long as the runtime (a segment's parameters, …)
 *   buffer   a home, or a transient region of one body
 *   op       one piece of work on a queue, with the bytes it reads and writes
 *   body     ops in list order: micro, last micro, update, evaluation
 *   wait     (queue, ordinal): the op starts after that many ops of that queue are done, of its own
 *            body, or of the update before it
 *
 * Passes (passes.h) run in this order: emit (ops and buffers, in an order that is correct if run
 * one by one), plan (an offset for every transient buffer, from list-order lifetimes), link (waits,
 * from conflicts of the bytes ops touch); a test checks what comes out. No pass writes waits by
 * hand: two ops are ordered because they touch the same bytes, or not at all.
 */
#ifndef ZERO_SCHEDULE_PROGRAM_H
#define ZERO_SCHEDULE_PROGRAM_H

#include <stdio.h>

#include "schedule/states.h"

enum zero__queue {
    ZERO__Q_COMPUTE,
    ZERO__Q_GATHER,
    ZERO__Q_REDUCE,
    ZERO__Q_CPU, /* kernels of the device: fill, accumulate, sums of squares, scalars, update */
    ZERO__Q_FETCH,
    ZERO__Q_WRITEBACK,
    ZERO__Q_LOAD,  /* copies to the device, */
    ZERO__Q_STORE, /* and from it, which wait for others than those */
    ZERO__Q_UPDATE, /* kernels behind a reduction, for which no backward use has to wait */
    ZERO__Q_HOST,   /* kernels of the host, on tiles, beside those of a device that has its own, */
    ZERO__Q_RETURN, /* and copies of what they have updated to the device */
    ZERO__N_QUEUES,
    ZERO__Q_NONE = ZERO__N_QUEUES, /* markers: nothing runs */
};

/* What an update still has to do in these queues goes on behind the body that follows. */
static inline int zero__queue_is_behind(uint32_t queue)
{
    return queue == ZERO__Q_GATHER || queue == ZERO__Q_WRITEBACK || queue == ZERO__Q_STORE;
}

/* The queue is a stream of the device; its ops start and end in order. */
static inline int zero__queue_is_stream(uint32_t queue)
{
    return queue == ZERO__Q_CPU || queue == ZERO__Q_LOAD || queue == ZERO__Q_STORE ||
           queue == ZERO__Q_UPDATE || queue == ZERO__Q_HOST || queue == ZERO__Q_RETURN;
}

/* Its ops are requests to the disk's store. */
static inline int zero__queue_is_disk(uint32_t queue)
{
    return queue == ZERO__Q_FETCH || queue == ZERO__Q_WRITEBACK;
}

/* Ops of the queue start in order, but several are under way; they are counted done in order. */
static inline int zero__queue_overlaps(uint32_t queue)
{
    return queue == ZERO__Q_GATHER || queue == ZERO__Q_REDUCE || zero__queue_is_disk(queue);
}

enum zero__op_kind {
    ZERO__GATHER,     /* shards of a unit's parameters into its gathered buffers */
    ZERO__COMPUTE,    /* the application, from acquire to release */
    ZERO__FILL,       /* zeroes the gaps of gradient buffers */
    ZERO__ACCUMULATE, /* adds a unit's gradients to its fp32 accumulators */
    ZERO__REDUCE,     /* reduce-scatter of a unit's gradients */
    ZERO__PUBLISH, /* all-gather in place of a home (parameters after update; stage 0 gradients) */
    ZERO__MAP,     /* barrier: a unit's mapped parameters are updated on all ranks */
    ZERO__SUMSQ,   /* squares of the rank's part of a unit's gradients, block by block */
    ZERO__TOTAL,   /* the rank's sum of them, numbered by unit and block */
    ZERO__NORM,    /* all-gather of the ranks' sums */
    ZERO__SCALARS, /* global norm, clip factor, skip flag, loss scale */
    ZERO__FETCH,   /* from the disk */
    ZERO__COPY,    /* between device and host */
    ZERO__UPDATE,  /* optimizer, on the rank's part of a unit, or on a tile of it */
    ZERO__WRITEBACK, /* to the disk */
    ZERO__SAVE,      /* an activation leaves the device */
    ZERO__RESTORE,   /* and comes back */
    ZERO__FREE,      /* marker: buffers of the op's list end here */
    ZERO__N_OPS,
};

/* What an access is for: by it uses and updates find theirs, while pairs go by their position. */
enum zero__role {
    ZERO__R_SRC,
    ZERO__R_DST,
    ZERO__R_PARAM,
    ZERO__R_GRAD,
    ZERO__R_MASTER,
    ZERO__R_MOMENTUM,
    ZERO__R_VARIANCE,
    ZERO__R_DECLARED,
    ZERO__R_PRODUCED, /* an activation, in the use that writes it */
    ZERO__R_CONSUMED, /* in the use that reads it again */
};

/* Bytes off … off + bytes of a buffer, read or written. */
struct zero__access {
    uint32_t buffer, segment; /* segment: ZERO_NONE where none */
    uint8_t role, write;
    uint64_t off, bytes;
};

struct zero__wait {
    uint32_t queue, ordinal;
    uint32_t behind; /* the ordinal counts in the update that ran before this body */
};

enum zero__op_flags {
    ZERO__OP_FIRST = 1u << 0, /* COMPUTE: the first gradient contribution of the unit */
    ZERO__OP_LAST = 1u << 1,  /* COMPUTE: the last one */
    ZERO__OP_SUMS = 1u << 2,  /* FETCH, COPY: accumulators, where a micro-batch has added to them */
    ZERO__OP_WHOLE = 1u << 3, /* FILL: all of it, not the gaps between parameters */
    ZERO__OP_TILE = 1u << 4,  /* of an update tile by tile, wherever it stands */
};

struct zero__op {
    uint8_t kind, queue, pass, flags;
    uint32_t unit;    /* ZERO_NONE where none */
    uint32_t ordinal; /* among the ops of its queue in this body, from 1; 0 for markers */
    uint32_t first_access, n_accesses;
    uint32_t first_wait, n_waits;
    uint64_t wire_bytes; /* sent by one rank */
    uint64_t first;      /* UPDATE of a tile: its first element in the rank's part */
};

enum zero__body_kind {
    ZERO__MICRO,
    ZERO__LAST,
    ZERO__UPDATE_BODY,
    ZERO__EVALUATION,
    ZERO__N_BODIES,
};

/* Bytes of transients, in whole pages, that a body has live in a tier. */
struct zero__live {
    uint64_t most[ZERO_N_CLASSES];    /* of each class, at its own fullest point */
    uint64_t at_peak[ZERO_N_CLASSES]; /* at the fullest point of all */
    uint64_t peak;
};

struct zero__body {
    struct zero__op *ops;
    struct zero__access *accesses;
    struct zero__wait *waits;
    struct zero__buffer *buffers; /* transient ones; ids follow the homes' */
    uint32_t n_ops, n_accesses, n_waits, n_buffers;
    uint32_t cap_ops, cap_accesses, cap_waits, cap_buffers;
    uint32_t n_homes;
    uint32_t *declared; /* by declared buffer: its id in this body, or ZERO_NONE */
    uint32_t *away; /* likewise: of an activation that leaves the device, where it lies meanwhile */
    uint32_t in_queue[ZERO__N_QUEUES]; /* ops per queue */
    uint64_t height[ZERO__N_TIERS], lower_bound[ZERO__N_TIERS]; /* of the transient plans */
    struct zero__live live[ZERO__N_TIERS];
    uint64_t wire_bytes;
    int is_draft;                /* only lives and sizes of buffers are wanted: no accesses */
    int err;                     /* there was no memory: nothing is appended (body.h), */
    struct zero__buffer nowhere; /* and this is what zero__body_at() gives */
};

struct zero__program {
    struct zero__body bodies[ZERO__N_BODIES];
    struct zero_use *uses[2]; /* by enum zero_step_kind: the orders it was compiled from */
    uint32_t n_uses[2];
    uint64_t transient_bytes[ZERO__N_TIERS]; /* the highest body */
    uint64_t hash;            /* of ops, accesses, offsets: equal on all ranks */
};

/*
 * An access with all the bytes that it touches: between the disk and the host's memory pages are
 * moved, and what is behind the end of a buffer in its last one may have been another one's.
 */
static inline struct zero__access zero__access_whole(const struct zero__op *op,
                                                     const struct zero__access *x)
{
    struct zero__access whole = *x;

    if (op->kind == ZERO__FETCH || op->kind == ZERO__WRITEBACK)
        whole.bytes = zero__whole_pages(x->bytes);
    return whole;
}

/* Something of the unit is updated beside the backward pass (emit_early.c). */
int zero__unit_is_early(const struct zero__model *m, const struct zero__states *s, uint32_t unit);

/* Of what a commit makes: less than half a second of a core for each plan. */
#define ZERO__PLAN_NODES 2000000u
/* Runs all passes. `plan_nodes`: what the memory planner may search for each body and tier. */
int zero__program_compile(const struct zero__model *m, const struct zero__recipe *r,
                          const struct zero__states *s, uint64_t plan_nodes, uint32_t threads,
                          struct zero__program **program);
void zero__program_free(struct zero__program *p);
/* Bytes of transients in each tier that a program would have; a compiled one differs by little. */
int zero__program_measure(const struct zero__model *m, const struct zero__recipe *r,
                          const struct zero__states *s, uint64_t bytes[ZERO__N_TIERS]);

/* Of a fetch or a writeback: the bytes on the disk of its pair k of accesses. */
static inline const struct zero__access *zero__disk_access(const struct zero__body *b,
                                                           const struct zero__op *op, uint32_t k)
{
    return &b->accesses[op->first_access + 2 * k + (op->kind == ZERO__WRITEBACK)];
}

/* What an op moves to or from the disk, in whole pages: 0 but for fetches and writebacks. */
static inline uint64_t zero__op_disk_bytes(const struct zero__body *b, const struct zero__op *op)
{
    uint64_t bytes = 0;

    if (op->kind == ZERO__FETCH || op->kind == ZERO__WRITEBACK)
        for (uint32_t k = 0; k < op->n_accesses / 2; k++)
            bytes += zero__whole_pages(zero__disk_access(b, op, k)->bytes);
    return bytes;
}

/* Bytes that a step of a rank moves, in whole pages; `update`: tiles, wherever they stand, too. */
struct zero__traffic {
    struct zero__disk_bytes {
        uint64_t read, written;
    } passes, update;
};
void zero__program_traffic(const struct zero__program *p, const struct zero__recipe *r,
                           struct zero__traffic *traffic);

/* May the body directly follow an update? */
int zero__body_follows(const struct zero__recipe *r, uint32_t body);
void zero__body_free(struct zero__body *b);

/* A body's or the states' buffer by id. */
static inline const struct zero__buffer *zero__buffer_of(const struct zero__states *s,
                                                         const struct zero__body *b, uint32_t id)
{
    return id < b->n_homes ? &s->buffers[id] : &b->buffers[id - b->n_homes];
}

/* Names for dumps and reports. */
const char *zero__op_name(uint32_t kind);
const char *zero__queue_name(uint32_t queue);
const char *zero__class_name(uint32_t memory_class);
const char *zero__tier_name(uint32_t tier);
const char *zero__body_name(uint32_t body);

/* Text of one body, a line per op; returns 0 or an error of the stream. */
int zero__body_dump(const struct zero__model *m, const struct zero__states *s,
                    const struct zero__body *b, FILE *f);

#endif
