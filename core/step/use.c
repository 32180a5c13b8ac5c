/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the parameters, gradients and buffers of the use that is held. They stay valid until
 * a call has returned an error to the application: a peer's death in the middle of a use must not
 * become an access to NULL. (Before a step's first use zero_buffer() waits, and may fail.)
 */
#include <errno.h>

#include "base/status.h"
#include "step/state.h"

void zero__use_point(struct zero__step *step, const struct zero__op *op)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        const struct zero__access *x = &step->now.body->accesses[a];
        if (x->role == ZERO__R_PARAM)
            step->param_now[x->segment] =
                zero__param_address(step->site, step->now.body, x->segment, x->buffer);
        else if (x->role == ZERO__R_GRAD)
            step->grad_now[x->segment] =
                zero__address(step->site, step->now.body, x->buffer, x->off);
    }
    step->beta_now = op->flags & ZERO__OP_FIRST ? 0.0f : 1.0f;
    zero__activations_use(step, op);
}

void zero__use_forget(struct zero__step *step, uint32_t unit)
{
    FOR_SEGMENTS (&step->site->model, unit, i)
        step->param_now[i] = step->grad_now[i] = NULL;
}

static const struct zero__param *param_find(const struct zero__step *step, uint32_t param)
{
    if (param < step->site->model.n_params)
        return &step->site->model.params[param];
    zero__fail(-EINVAL, "parameter %u is not registered (%u are)", param,
               step->site->model.n_params);
    return NULL;
}

const void *zero__step_param(const struct zero__step *step, uint32_t param)
{
    const struct zero__param *p = param_find(step, param);

    if (!p)
        return NULL;
    if (!step->held || !step->param_now[p->segment]) {
        zero__fail(-EINVAL,
                   "parameter %s: its unit %s is not held: zero_param() comes between "
                   "zero_acquire() and zero_release()",
                   p->name, step->site->model.units[p->unit].name);
        return NULL;
    }
    return step->param_now[p->segment] + p->offset * zero_dtype_bytes(p->dtype);
}

void *zero__step_grad(const struct zero__step *step, uint32_t param, float *beta)
{
    const struct zero__param *p = param_find(step, param);

    if (!p)
        return NULL;
    if (!step->held || !step->grad_now[p->segment]) {
        zero__fail(-EINVAL, "parameter %s has no gradient here: %s", p->name,
                   p->flags & ZERO_PARAM_FROZEN ? "it is frozen"
                                                : "its unit is not held for BACKWARD");
        return NULL;
    }
    if (beta)
        *beta = step->beta_now;
    return step->grad_now[p->segment] + p->offset * zero_dtype_bytes(p->dtype);
}

static int before_first_use(const struct zero__step *step)
{
    if (step->held || step->deviation.on || step->pc >= step->now.body->n_ops)
        return 0;
    for (uint32_t i = 0; i < step->pc; i++)
        if (step->now.body->ops[i].kind == ZERO__COMPUTE)
            return 0;
    return 1;
}

/*
 * A buffer that lives from the step's beginning may lie where the last update still has something
 * in flight. The first use waits for that; a caller that wants the address sooner waits as long.
 */
static int first_waits(struct zero__step *step)
{
    return zero__op_await(step->run, &step->now, &step->now.body->ops[step->pc], &step->exposed_ns);
}

void *zero__step_buffer(struct zero__step *step, uint32_t buffer)
{
    void *p;

    if (!zero__body_is_open(step) &&
        zero__step_phase(step, ZERO__IN(MICRO) | ZERO__IN(EVAL), "zero_buffer()"))
        return NULL;
    if (buffer >= step->site->model.n_buffers) {
        zero__fail(-EINVAL,
                   "buffer %u: there are %u, from 0 on, as zero_buffer_add() and "
                   "zero_activation_add() told them",
                   buffer, step->site->model.n_buffers);
        return NULL;
    }
    if (step->site->model.buffers[buffer].activation) {
        zero__fail(-EINVAL, "%s is an activation: zero_activation() has its address",
                   step->site->model.buffers[buffer].name);
        return NULL;
    }
    if (step->deviation.on)
        return zero__deviate_region(step, buffer, &p) ? NULL : p;
    uint32_t id = step->now.body->declared[buffer];
    if (id == ZERO_NONE) {
        zero__fail(-EINVAL,
                   "buffer %s does not live in %s: the uses from its first to its "
                   "last are no part of it",
                   step->site->model.buffers[buffer].name,
                   step->phase == ZERO__PHASE_EVAL ? "an evaluation" : "a training micro-step");
        return NULL;
    }
    if (step->site->model.buffers[buffer].desc.from_unit == ZERO_WHOLE_STEP &&
        before_first_use(step) && first_waits(step))
        return NULL;
    return zero__address(step->site, step->now.body, id, 0);
}
