/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a model: the homes that a rank keeps for its segments, whole or as its shard, and
 * what of them it works on. Built once; every program shares them.
 */
#ifndef ZERO_SCHEDULE_STATES_H
#define ZERO_SCHEDULE_STATES_H

#include "schedule/recipe.h"

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
    uint32_t dtype;
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

int zero__states_build(const struct zero__model *m, const struct zero__recipe *r,
                       struct zero__states *s);
void zero__states_free(struct zero__states *s);
/* Bytes of class by the paper's formula for this recipe, without padding. */
uint64_t zero__formula_bytes(const struct zero__model *m, const struct zero__recipe *r,
                             const struct zero__states *states,
                             uint32_t memory_class);

#endif
