/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the emit passes: the walk over the order, gradients, declared buffers. */
#ifndef ZERO_SCHEDULE_EMIT_H
#define ZERO_SCHEDULE_EMIT_H

#include "schedule/lists.h"
#include "schedule/moves.h"
#include "schedule/passes.h"
#include "schedule/program.h"
#include "schedule/tiles.h"

struct emit_life {
    uint32_t first, last; /* uses; ZERO_NONE: not in this body */
};

/* Buffers that an op still reads whose room may be had again, oldest first. */
struct emit_leaving {
    struct emit_left {
        uint32_t id, use; /* the use that it was read behind */
    } *list;
    uint32_t head, tail;
    uint64_t bytes;
};

struct emit {
    const struct zero__model *m;
    const struct zero__recipe *r;
    const struct zero__states *s;
    struct zero__body *b;
    const struct zero_use *uses;
    uint32_t n_uses;
    int last; /* the micro-batch before the update */

    uint32_t *next, *before;  /* by use: the next use of its unit, and the one before */
    uint32_t *contributions;  /* by unit: how many uses add to its gradient */
    uint8_t *keep;      /* by use: stays gathered until the unit's next use */
    uint32_t *gathered; /* by use: its first gathered buffer */
    uint32_t next_gather;
    uint64_t ahead; /* gathered bytes whose use is still to come, kept ones apart */

    uint32_t *bucket; /* by segment: where its gradient is collected; ZERO_NONE: at home */
    uint32_t *sums;   /* by segment: what its accumulators outside the device have there */
    uint32_t *left;   /* by unit: backward uses still to come */
    struct zero__tiles *tiles;     /* of updates beside the backward pass, or NULL */
    struct zero__brought *brought; /* by segment: the gradients that they read */
    struct emit_retired {
        struct zero__moves home; /* of the unit's gradients, which may still be under way */
        uint64_t bytes;
    } *retire; /* reduced, not yet freed, oldest first */
    uint32_t retire_head, retire_tail;
    uint64_t bucket_live, bucket_limit;

    struct emit_life *lives; /* by declared buffer */
    struct zero__lists ends; /* by use: 2 * i of declared buffer i's first, 2 * i + 1 of its last */

    struct zero__lists returns; /* by use: activations that it consumes and that were away */
    struct zero__lists leaves;  /* by use: activations that it produces and that leave */
    uint32_t n_returns;
    uint32_t *stage;                 /* by declared buffer: it comes back from a disk by way of */
    uint32_t next_fetch, next_return; /* in returns.items */
    uint64_t move_limit, staged, returned; /* bytes: at most under way; so far ahead of their use */
    struct emit_leaving leaving, leaving_host;
};

/* The segment's whole parameters are gathered once after each update (stages 1, 2, persistent). */
static inline int zero__publishes(const struct zero__recipe *r, const struct zero__segment *s,
                                  const struct zero__home *h)
{
    return r->ranks > 1 && s->trainable && h->param_whole && !h->state_whole;
}

uint64_t zero__unit_gathered_bytes(const struct emit *e, uint32_t unit);
uint64_t zero__unit_grad_bytes(const struct emit *e, uint32_t unit);

/* Appends the gather of a use's unit, with its buffers. */
void zero__gather(struct emit *e, uint32_t use);

/* Neighbours of uses; see emit_order.c. */
int zero__order_begin(struct emit *e);
void zero__order_end(struct emit *e);

/* Gradients of a unit: room for the first contribution; reduction after the last. */
void zero__grad_open(struct emit *e, uint32_t unit);
void zero__grad_close(struct emit *e, uint32_t unit);
void zero__grad_finish(struct emit *e, uint32_t unit);
/* Opens and closes a gradient of zero. */
void zero__grad_zero(struct emit *e, uint32_t unit);
void zero__grad_retire_all(struct emit *e);

/* The squares of a rank's part of a gradient, to the last op, which `first` appends on `queue`. */
void zero__sumsq_add(const struct emit *e, uint32_t queue, uint32_t unit, uint32_t segment,
                     uint32_t buffer, uint64_t off, uint64_t bytes, int first);

/* Updates beside the last backward pass; see emit_early.c. */
int zero__early_begin(struct emit *e);
int zero__early_units(struct emit *e, const uint32_t *units, uint32_t n_units);
/* Units that no use contributes to. */
void zero__early_rest(struct emit *e);
void zero__early_end(struct emit *e);

/* Declared buffers: lives from the order; accesses at both ends; what ends with a use. */
int zero__declared_lives(struct emit *e);
void zero__declared_access(struct emit *e, uint32_t use);
void zero__declared_free(struct emit *e, uint32_t use, uint32_t *marked);
void zero__declared_end(struct emit *e);
/* What lives to the step's end does so behind all ops. */
void zero__declared_finish(struct emit *e);

/* Activations that leave the device; see emit_activation.c. */
int zero__saves_begin(struct emit *e);
void zero__saves_return(struct emit *e, uint32_t use);
void zero__saves_leave(struct emit *e, uint32_t use);
void zero__saves_finish(struct emit *e);
void zero__saves_end(struct emit *e);

#endif
