/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parameters, gradients and buffers of the use that is held are. They are there until the
 * application hears of an error, by a call that returns one: a peer's end in the middle of a use
 * must not become an access to NULL. (Before a step's first use zero_buffer() waits, and may fail.)
 */
#include <errno.h>

#include "base/status.h"
#include "engine/runtime.h"

void zero__use_point(struct zero_runtime *rt, const struct zero__op *op)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        const struct zero__access *x = &rt->body->accesses[a];
        if (x->role == ZERO__R_PARAM)
            rt->param_now[x->segment] = zero__param_address(rt, rt->body, x->segment, x->buffer);
        else if (x->role == ZERO__R_GRAD)
            rt->grad_now[x->segment] = zero__address(rt, rt->body, x->buffer, x->off);
    }
    rt->beta_now = op->flags & ZERO__OP_FIRST ? 0.0f : 1.0f;
    zero__activations_use(rt, op);
}

void zero__use_forget(struct zero_runtime *rt, uint32_t unit)
{
    FOR_SEGMENTS (&rt->model, unit, i)
        rt->param_now[i] = rt->grad_now[i] = NULL;
}

static const struct zero__param *param_find(const struct zero_runtime *rt, uint32_t param)
{
    if (param < rt->model.n_params)
        return &rt->model.params[param];
    zero__fail(-EINVAL, "parameter %u is not registered (%u are)", param, rt->model.n_params);
    return NULL;
}

const void *zero_param(struct zero_runtime *rt, uint32_t param)
{
    const struct zero__param *p = param_find(rt, param);

    if (!p)
        return NULL;
    if (!rt->held || !rt->param_now[p->segment]) {
        zero__fail(-EINVAL, "parameter %s: its unit %s is not held: zero_param() comes between "
                   "zero_acquire() and zero_release()", p->name, rt->model.units[p->unit].name);
        return NULL;
    }
    return rt->param_now[p->segment] + p->offset * zero_dtype_bytes(p->dtype);
}

void *zero_grad(struct zero_runtime *rt, uint32_t param, float *beta)
{
    const struct zero__param *p = param_find(rt, param);

    if (!p)
        return NULL;
    if (!rt->held || !rt->grad_now[p->segment]) {
        zero__fail(-EINVAL, "parameter %s has no gradient here: %s", p->name,
                   p->flags & ZERO_PARAM_FROZEN ? "it is frozen"
                                                : "its unit is not held for BACKWARD");
        return NULL;
    }
    if (beta)
        *beta = rt->beta_now;
    return rt->grad_now[p->segment] + p->offset * zero_dtype_bytes(p->dtype);
}

static int before_first_use(const struct zero_runtime *rt)
{
    if (rt->held || rt->dev_step.on || rt->pc >= rt->body->n_ops)
        return 0;
    for (uint32_t i = 0; i < rt->pc; i++)
        if (rt->body->ops[i].kind == ZERO__COMPUTE)
            return 0;
    return 1;
}

/*
 * What lives from the step's beginning may lie where the last update still has something under way.
 * It is the first use that waits for that; who wants the address sooner waits for the same.
 */
static int first_waits(struct zero_runtime *rt)
{
    uint64_t waits[ZERO__N_QUEUES];

    zero__waits_of(rt, &rt->body->ops[rt->pc], waits);
    return zero__lanes_wait(rt, waits, &rt->exposed_ns);
}

void *zero_buffer(struct zero_runtime *rt, uint32_t buffer)
{
    const uint32_t step = IN(PHASE_MICRO) | IN(PHASE_EVAL);
    void *p;

    if (!(step & IN(rt->phase)) && zero__runtime_phase(rt, step, "zero_buffer()"))
        return NULL;
    if (buffer >= rt->model.n_buffers) {
        zero__fail(-EINVAL, "buffer %u: there are %u, from 0 on, as zero_buffer_add() and "
                   "zero_activation_add() told them", buffer, rt->model.n_buffers);
        return NULL;
    }
    if (rt->model.buffers[buffer].activation) {
        zero__fail(-EINVAL, "%s is an activation: zero_activation() has its address",
                   rt->model.buffers[buffer].name);
        return NULL;
    }
    if (rt->dev_step.on)
        return zero__deviate_region(rt, buffer, &p) ? NULL : p;
    uint32_t id = rt->body->declared[buffer];
    if (id == ZERO_NONE) {
        zero__fail(-EINVAL, "buffer %s does not live in %s: the uses from its first to its "
                   "last are no part of it", rt->model.buffers[buffer].name,
                   rt->phase == PHASE_EVAL ? "an evaluation" : "a training micro-step");
        return NULL;
    }
    if (rt->model.buffers[buffer].desc.from_unit == ZERO_WHOLE_STEP && before_first_use(rt) &&
        first_waits(rt))
        return NULL;
    return zero__address(rt, rt->body, id, 0);
}
