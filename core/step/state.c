/* SPDX-License-Identifier: Apache-2.0 */
/* A step's state: its memory, and the phase that decides which calls are allowed. */
#include "step/state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/status.h"

int zero__step_create(const struct zero__site *site, struct zero__runner *run,
                      struct zero__model *model, struct zero__step **out)
{
    struct zero__step *step = calloc(1, sizeof *step);

    if (!step)
        return zero__fail(-ENOMEM, "no memory for a runtime");
    step->site = site;
    step->run = run;
    step->model = model;
    *out = step;
    return 0;
}

void zero__step_free(struct zero__step *step)
{
    if (!step)
        return;
    zero__deviate_free(step);
    free(step->now.contributed);
    free(step->activations);
    free(step->param_now);
    free(step->grad_now);
    free(step->norms);
    free(step);
}

int zero__step_equip(struct zero__step *step)
{
    const struct zero__model *m = &step->site->model;

    step->now.contributed = calloc(m->n_units + 1, sizeof *step->now.contributed);
    step->param_now = calloc(m->n_segments + 1, sizeof *step->param_now);
    step->grad_now = calloc(m->n_segments + 1, sizeof *step->grad_now);
    step->activations = calloc(m->n_buffers + 1, sizeof *step->activations);
    step->norms = calloc((size_t)step->site->ranks, sizeof *step->norms);
    if (!step->now.contributed || !step->param_now || !step->grad_now || !step->activations ||
        !step->norms)
        return zero__fail(-ENOMEM, "no memory for a model of %u units", m->n_units);
    return zero__deviate_create(step);
}

void zero__step_ready(struct zero__step *step, float loss_scale)
{
    step->now.body = &step->site->programs[0]->bodies[ZERO__UPDATE_BODY];
    step->now.kind = ZERO__UPDATE_BODY;
    step->last_info.loss_scale = loss_scale;
}

void zero__step_commit(struct zero__step *step)
{
    step->phase = ZERO__PHASE_IDLE;
}

static enum zero__phase phase_now(const struct zero__step *step)
{
    return zero__run_was_told(step->run) ? ZERO__PHASE_FAILED : step->phase;
}

int zero__step_is_setup(const struct zero__step *step)
{
    return phase_now(step) == ZERO__PHASE_SETUP;
}

int zero__body_is_open(const struct zero__step *step)
{
    const enum zero__phase phase = phase_now(step);

    return phase == ZERO__PHASE_MICRO || phase == ZERO__PHASE_EVAL;
}

int zero__step_phase(const struct zero__step *step, uint32_t phases, const char *what)
{
    int err = zero__run_error(step->run);

    if (err || phases & 1u << step->phase)
        return err;
    if (step->phase == ZERO__PHASE_SETUP)
        return zero__fail(-EINVAL, "%s: the model is not committed: call zero_commit() first",
                          what);
    if (phases == ZERO__IN(SETUP))
        return zero__fail(-EINVAL,
                          "%s: the model is committed already: make this call before "
                          "zero_commit()",
                          what);
    if (step->phase == ZERO__PHASE_IDLE)
        return zero__fail(-EINVAL, "%s: no step is open: call zero_begin() first", what);
    if (!step->now.ended)
        return zero__fail(-EINVAL,
                          "%s: micro-batch %u of at most %u (ZERO_ACCUM) is open: finish the step "
                          "and call zero_update() first",
                          what, step->now.micro, step->site->recipe.accum);
    return zero__fail(-EINVAL,
                      "%s: a training micro-step is open: end the step with zero_update() "
                      "first",
                      what);
}

int zero__step_settle(struct zero__step *step, const char *call)
{
    double none = 0;
    int err = zero__lanes_drain(step->run, 0, NULL);

    if (!err && step->site->ranks > 1 && !step->settled)
        err = zero__sum(step->run, call, &none, 1);
    step->settled = !err;
    return err;
}

uint32_t zero__step_micro(const struct zero__step *step)
{
    return step->now.micro;
}

int zero__step_updates(const struct zero__step *step)
{
    return step->site->recipe.early && step->now.ended;
}

float zero__step_loss_scale(const struct zero__step *step)
{
    return step->last_info.loss_scale;
}

uint64_t zero__step_peak(const struct zero__step *step, uint32_t memory_class)
{
    return step->peak.most[memory_class];
}

uint64_t zero__step_peak_all(const struct zero__step *step)
{
    return step->peak.all;
}
