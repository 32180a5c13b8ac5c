/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of core/step/: a step as the application's thread sees it. begin opens a body, acquire
 * and release stand around its uses and issue the rest of the list as far as they are allowed to,
 * update runs the update body. What is issued depends on the sequence of these calls alone. All
 * functions are the application's thread's.
 */
#ifndef ZERO_STEP_STEP_H
#define ZERO_STEP_STEP_H

#include "run/run.h"

struct zero__step;

/* Phases of a runtime. FAILED: the application has got the error that ended it. */
enum zero__phase {
    ZERO__PHASE_SETUP,
    ZERO__PHASE_IDLE,
    ZERO__PHASE_MICRO,
    ZERO__PHASE_EVAL,
    ZERO__PHASE_FAILED
};
#define ZERO__IN(phase) (1u << ZERO__PHASE_##phase)

/* ---- state.c: a step's beginning and end, and its phase */

/* The site and the runner must outlive it; model: of the site, whose orders steps record. */
int zero__step_create(const struct zero__site *site, struct zero__runner *run,
                      struct zero__model *model, struct zero__step **out);
void zero__step_free(struct zero__step *step);
/* Memory for the steps of the committed model. */
int zero__step_equip(struct zero__step *step);
/* Commit has installed the program and reserved its memory; loss_scale: of the first step. */
void zero__step_ready(struct zero__step *step, float loss_scale);
/* Commit is over: steps may begin. */
void zero__step_commit(struct zero__step *step);
/*
 * The call `what` is allowed in these phases, a mask of ZERO__IN(): else an error whose sentence
 * names the call that comes first.
 */
int zero__step_phase(const struct zero__step *step, uint32_t phases, const char *what);
int zero__step_is_setup(const struct zero__step *step);

/* ---- step.c, update.c: the calls of zero.h; arguments are theirs */

int zero__step_begin_check(const struct zero__step *step, uint32_t kind, int last_micro);
/* Ends the micro-step or evaluation that is open, if any. */
int zero__step_close(struct zero__step *step);
/* At the beginning of a step an order waits to be compiled. */
int zero__step_wants_program(const struct zero__step *step);
int zero__step_open(struct zero__step *step, uint32_t kind, int last_micro);
int zero__step_acquire(struct zero__step *step, uint32_t unit, uint32_t pass, void *stream);
int zero__step_release(struct zero__step *step, uint32_t unit, uint32_t pass, void *stream);
int zero__step_update(struct zero__step *step, struct zero_step_info *info);
/* No unit is held; else -EBUSY with its name. */
int zero__step_not_held(const struct zero__step *step);
/* Every rank has done everything of the last step; `call` asks, for reports. Collective. */
int zero__step_settle(struct zero__step *step, const char *call);
/* Micro-batches of this step so far. */
uint32_t zero__step_micro(const struct zero__step *step);
/* Updates may be in flight beside the last backward pass, until the update. */
int zero__step_updates(const struct zero__step *step);
float zero__step_loss_scale(const struct zero__step *step);
/* Most transient bytes of the device, of the bodies that ran: by class, and together. */
uint64_t zero__step_peak(const struct zero__step *step, uint32_t memory_class);
uint64_t zero__step_peak_all(const struct zero__step *step);

/* ---- use.c: addresses of the use that is held */

const void *zero__step_param(const struct zero__step *step, uint32_t param);
void *zero__step_grad(const struct zero__step *step, uint32_t param, float *beta);
void *zero__step_buffer(struct zero__step *step, uint32_t buffer);

/* ---- activations.c */

void *zero__step_activation(const struct zero__step *step, uint32_t activation);
int zero__step_activation_save(struct zero__step *step, uint32_t activation, const void *from,
                               uint64_t bytes, void *stream);
int zero__step_activation_restore(const struct zero__step *step, uint32_t activation, void **p,
                                  uint64_t *bytes);

/* ---- orders.c: orders that wait to be compiled */

/* An order of that kind was declared. */
void zero__orders_declared(struct zero__step *step, uint32_t kind);
/* The orders that waited are compiled. */
void zero__orders_compiled(struct zero__step *step);
/* A hash of the orders that wait; 0: none does. */
uint64_t zero__orders_hash(const struct zero__step *step);
/*
 * After a refusal: drops orders that were only recorded, so that steps go on out of order. 1 if
 * that leaves the program that is installed; 0 if the application declared what was refused.
 */
int zero__orders_forget(struct zero__step *step);

#endif
