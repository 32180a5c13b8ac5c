/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of a step; core/step/ does their work. */
#include "engine/runtime.h"

int zero_begin(struct zero_runtime *rt, uint32_t kind, int last_micro)
{
    int err = zero__step_begin_check(rt->step, kind, last_micro);

    if (!err)
        err = zero__step_close(rt->step);
    if (!err && zero__step_wants_program(rt->step)) {
        err = zero__program_install(rt);
        if (err && zero__orders_forget(rt->step))
            err = 0; /* steps go on with the program that is installed */
    }
    return err ? err : zero__step_open(rt->step, kind, last_micro);
}

int zero_acquire(struct zero_runtime *rt, uint32_t unit, uint32_t pass, void *stream)
{
    return zero__step_acquire(rt->step, unit, pass, stream);
}

int zero_release(struct zero_runtime *rt, uint32_t unit, uint32_t pass, void *stream)
{
    return zero__step_release(rt->step, unit, pass, stream);
}

int zero_update(struct zero_runtime *rt, struct zero_step_info *info)
{
    return zero__step_update(rt->step, info);
}

const void *zero_param(struct zero_runtime *rt, uint32_t param)
{
    return zero__step_param(rt->step, param);
}

void *zero_grad(struct zero_runtime *rt, uint32_t param, float *beta)
{
    return zero__step_grad(rt->step, param, beta);
}

void *zero_buffer(struct zero_runtime *rt, uint32_t buffer)
{
    return zero__step_buffer(rt->step, buffer);
}

void *zero_activation(struct zero_runtime *rt, uint32_t activation)
{
    return zero__step_activation(rt->step, activation);
}

int zero_activation_save(struct zero_runtime *rt, uint32_t activation, const void *from,
                         uint64_t bytes, void *stream)
{
    return zero__step_activation_save(rt->step, activation, from, bytes, stream);
}

int zero_activation_restore(struct zero_runtime *rt, uint32_t activation, void **p, uint64_t *bytes)
{
    return zero__step_activation_restore(rt->step, activation, p, bytes);
}
