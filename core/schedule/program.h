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

#include "base/placement.h"
#include "model/model.h"

/* Where bytes lie. A tier has two slabs: states, and what lives for a part of a body only. */
enum zero__tier {
    ZERO__T_DEVICE,
    ZERO__T_CPU,  /* memory of the host, beside the device's */
    ZERO__T_DISK, /* a store that is read and written by requests */
    ZERO__N_TIERS,
};

/* The slabs of all tiers: of each that of its states, then that of its transients. */
#define ZERO__N_SLABS (2 * ZERO__N_TIERS)
static inline uint32_t zero__slab(uint32_t tier, uint32_t transient)
{
    return 2 * tier + (transient != 0);
}

/* What shapes a program; the same on all ranks but for `rank`. */
struct zero__recipe {
    uint32_t stage, ranks, rank, accum;
    uint32_t boundary;  /* reduce at the boundary of a step, not after every micro-batch */
    uint32_t n_moments; /* optimizer states beside the master copy: 0, 1 (momentum), 2 */
    uint32_t state_dtype; /* of the moments; 0: fp32 */
    uint32_t early; /* states outside the device are updated as soon as a gradient is reduced */
    uint32_t halves; /* the library's optimizers: a master copy may be kept as its lower half */
    uint64_t bucket_bytes, prefetch_bytes;
    int64_t retain_bytes; /* -1: nothing is kept from one use to the next */
    uint64_t map_bytes;   /* granule in which peers' memory can be mapped; 0: it cannot */
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS]; /* parts of ZERO__PLACE_PARTS; all 0: device */
    uint32_t tile;  /* elements that an update of states elsewhere works on at a time */
    uint32_t tiles; /* of them that are under way: read, updated, written */
    uint32_t host_updates; /* tiles are updated by the host, not by the device */
};

/* Bytes of an element of a moment. */
static inline uint64_t zero__moment_bytes(const struct zero__recipe *r)
{
    return r->state_dtype == ZERO_BF16 ? 2 : 4;
}

/* A rank keeps only its shard of the parameters (stage 3 and more than one rank). */
static inline int zero__recipe_shards(const struct zero__recipe *r, const struct zero__segment *s)
{
    return r->stage == 3 && r->ranks > 1 && !s->persistent;
}

/* The ranks' shards are mapped side by side: there is nothing to gather. */
static inline int zero__recipe_maps(const struct zero__recipe *r, const struct zero__segment *s)
{
    return zero__recipe_shards(r, s) && r->map_bytes &&
           s->shard * zero_dtype_bytes(s->dtype) % r->map_bytes == 0;
}

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

struct zero__buffer {
    uint8_t memory_class, transient, tier;
    uint32_t segment, declared; /* ZERO_NONE where not of one */
    uint64_t bytes;
    uint32_t first, last; /* transient: live for ops first <= i < last */
    uint64_t offset;      /* in the tier's slab of states, or in that of transients */
};

static inline uint32_t zero__slab_of(const struct zero__buffer *f)
{
    return zero__slab(f->tier, f->transient);
}

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
    int err;                     /* there was no memory: nothing is appended (body.h), */
    struct zero__buffer nowhere; /* and this is what zero__body_at() gives */
};

/* Homes of a segment; ZERO_NONE where the segment has none. */
struct zero__home {
    uint32_t param, grad, master, momentum, variance; /* grad: zero__gradient_of() */
    uint32_t param_whole, grad_whole, state_whole;    /* else just the rank's shard */
    uint32_t param_mapped; /* its shard, and the peers' beside it to read */
    uint32_t early; /* updated beside the backward pass, without waiting for the norm */
    /*
     * Bytes of an element of the master copy: 4, or 2. Outside the device bf16 parameters are not
     * kept twice: the home has the masters' lower halves, see zero_join_bf16().
     */
    uint32_t master_bytes;
    uint64_t partials; /* first block of the segment in the partials' home */
};

/* The states of a model: every home, with its place. Built once; programs share it. */
struct zero__states {
    struct zero__buffer *buffers;
    uint32_t n_buffers, cap_buffers;
    struct zero__home *homes; /* by segment */
    uint32_t partials, sums, scalars, staging; /* homes of the runtime itself */
    uint32_t bounce; /* the same: for single values on the disk; ZERO_NONE: nothing is there */
    uint64_t staging_bytes; /* ZERO_STAGING_LEAST to ZERO_STAGING_MOST, the same on all ranks */
    uint64_t n_partials;
    uint64_t bytes[ZERO__N_TIERS]; /* heights of the states' slabs */
};

/* The tier of a home; the device's for ZERO_NONE. */
static inline uint32_t zero__tier_of(const struct zero__states *s, uint32_t home)
{
    return home == ZERO_NONE ? (uint32_t)ZERO__T_DEVICE : s->buffers[home].tier;
}

struct zero__program {
    struct zero__body bodies[ZERO__N_BODIES];
    struct zero_use *uses[2]; /* by enum zero_step_kind: the orders it was compiled from */
    uint32_t n_uses[2];
    uint64_t transient_bytes[ZERO__N_TIERS]; /* the highest body */
    uint64_t hash;            /* of ops, accesses, offsets: equal on all ranks */
};

/*
 * Bytes of a piece in which values of parameters come and go (first values, reads, the hash), of
 * the staging buffer and of the bounce: the larger the model, the more, since a disk takes its time
 * for each piece.
 */
#define ZERO_STAGING_LEAST (256u << 10)
#define ZERO_STAGING_MOST (4u << 20)

/* Alignment of every buffer in its slab. */
#define ZERO_BUFFER_ALIGN 4096u

static inline uint64_t zero__whole_pages(uint64_t bytes)
{
    return (bytes + ZERO_BUFFER_ALIGN - 1) / ZERO_BUFFER_ALIGN * ZERO_BUFFER_ALIGN;
}

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

/* A home, and what of it the rank's update works on: the rank's part, or all. */
struct zero__part {
    uint32_t home;
    uint64_t bytes, own_off, own_bytes;
};
struct zero__part zero__parameter_of(const struct zero__model *m, const struct zero__recipe *r,
                                     const struct zero__states *s, uint32_t segment);

/*
 * What a segment's gradient is kept in from its reduction to the update: its own type, or, with
 * several micro-batches, fp32 accumulators.
 */
struct zero__gradient {
    uint32_t home, tier; /* home: ZERO_NONE where an early update reads it and nothing stays */
    uint64_t size, bytes; /* of an element, of the home */
    uint64_t own_off, own_bytes;  /* in the home: the rank's part, */
    uint64_t used_off, used_bytes; /* and what the rank's update reads: that, or all */
};
struct zero__gradient zero__gradient_of(const struct zero__model *m, const struct zero__recipe *r,
                                        const struct zero__states *s, uint32_t segment);

/* Blocks in which the squares of a rank's part of a segment's gradient are summed. */
static inline uint64_t zero__sumsq_blocks(const struct zero__segment *s)
{
    return (s->shard + ZERO_SUMSQ_BLOCK - 1) / ZERO_SUMSQ_BLOCK;
}

/* Which of enum zero__placed says where a class of states lies. */
uint32_t zero__placed_of(uint32_t memory_class);

/* Something of the unit is updated beside the backward pass (emit_early.c). */
int zero__unit_is_early(const struct zero__model *m, const struct zero__states *s, uint32_t unit);

int zero__states_build(const struct zero__model *m, const struct zero__recipe *r,
                       struct zero__states *s);
void zero__states_free(struct zero__states *s);
/* Bytes of class by the paper's formula for this recipe, without padding. */
uint64_t zero__formula_bytes(const struct zero__model *m, const struct zero__recipe *r,
                             const struct zero__states *states,
                             uint32_t memory_class);

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
