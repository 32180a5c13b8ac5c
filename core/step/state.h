/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/step/: the state that its files share. */
#ifndef ZERO_STEP_STATE_H
#define ZERO_STEP_STATE_H

#include "step/deviate.h"
#include "step/step.h"

/* How much of a unit's gradient is there, in this step. */
enum zero__contribution {
    ZERO__NOTHING,
    ZERO__SOME, /* sums of micro-batches so far */
    ZERO__ALL,  /* all of them, reduced: the update can begin */
};

/* An activation in the body that runs. */
struct zero__activation {
    uint64_t bytes; /* saved; 0: not yet */
    uint8_t *now;   /* its address, in a use that produces or consumes it */
    int consumed;   /* the use consumes it */
    uint64_t taken; /* out of order: its offset in the pool, or ZERO__NOWHERE */
};

struct zero__step {
    const struct zero__site *site;
    struct zero__runner *run;
    struct zero__model *model; /* of the site, whose orders are recorded */

    enum zero__phase phase;
    struct zero__issuing now; /* the body that is open, or was last */
    uint32_t pc;              /* next op to issue */
    int held;                 /* a use is acquired */
    struct zero_use use;      /* the one that is held */
    int settled; /* all ranks have done all of the last body, and know it of each other */
    uint8_t **param_now, **grad_now; /* by segment, while a use is held */
    float beta_now;
    struct zero__activation *activations; /* by declared buffer */
    struct zero__deviation deviation;
    uint32_t next_order[2];     /* a new order of this kind waits to be compiled */
    uint32_t recorded_order[2]; /* a step out of order recorded it; else the program declared it */

    uint64_t exposed_ns;
    uint64_t wire_bytes_seen; /* as the step began */
    double *norms;            /* of the ranks, for the report */
    struct zero_step_info last_info;
    struct {
        uint64_t most[ZERO_N_CLASSES], all;
    } peak; /* transient bytes of the device, of the bodies that ran */
};

/* ---- state.c */

/* A micro-step or evaluation is open, and the application has got no error. */
int zero__body_is_open(const struct zero__step *step);

/* ---- step.c */

/* At the end of a list with early updates: it has updated units without contributions, too. */
void zero__rest_contributed(struct zero__step *step);
/* Opens a body: what is issued from now on is its ops. */
void zero__body_open(struct zero__step *step, uint32_t kind);
/* Issues ops up to the next use, or the end. */
static inline int zero__step_advance(struct zero__step *step)
{
    return zero__ops_issue(step->run, &step->now, &step->pc);
}
/* Waits until the body is done, except what goes on behind an update. */
int zero__body_settle(struct zero__step *step, uint64_t *waited_ns);

/* ---- step_info.c */

/* Fills in the report of a step whose update is over; `began`: when the update began, ns. */
int zero__step_info(struct zero__step *step, int64_t began, struct zero_step_info *info);

/* ---- activations.c */

/* A body begins: nothing is saved. */
void zero__activations_open(struct zero__step *step);
/* A use of the program begins, whose op is given; it ends. */
void zero__activations_use(struct zero__step *step, const struct zero__op *op);
void zero__activations_end(struct zero__step *step, const struct zero__op *op);
/* Its planned place on the device holds an activation that was saved. */
int zero__activations_keeps(const struct zero__step *step, uint32_t declared);
/* A use out of order begins; it ends. */
int zero__activations_deviate(struct zero__step *step, uint32_t unit, uint32_t pass);
int zero__activations_deviate_end(struct zero__step *step);
/* No use follows in this body: activations that wait for one give their places back. */
void zero__activations_deviate_close(struct zero__step *step);

/* ---- use.c */

/* Sets the addresses of the use's parameters and gradients, from its op's accesses. */
void zero__use_point(struct zero__step *step, const struct zero__op *op);
void zero__use_forget(struct zero__step *step, uint32_t unit);

#endif
