/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls before commit: units, groups, parameters, buffers, and the optimizer. */
#include <errno.h>

#include "base/input.h"
#include "base/status.h"
#include "engine/runtime.h"

int zero_unit_add(struct zero_runtime *rt, const char *name, uint32_t *unit)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP), "zero_unit_add()");
    return err ? err : zero__model_add_unit(&rt->site.model, name, unit);
}

int zero_group_add(struct zero_runtime *rt, const struct zero_group_desc *desc, uint32_t *group)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP), "zero_group_add()");
    if (!err)
        err = zero__input_check("zero_group_desc", desc, sizeof *desc);
    if (!err && (rt->site.optimizer == ZERO__ADAMW || rt->site.optimizer == ZERO__ADAM) &&
        desc->eps == 0)
        err =
            zero__fail(-EINVAL, "group %s: eps 0 must be positive: Adam divides by it", desc->name);
    return err ? err : zero__model_add_group(&rt->site.model, desc, group);
}

int zero_param_add(struct zero_runtime *rt, uint32_t unit, const struct zero_param_desc *desc,
                   uint32_t *param)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP), "zero_param_add()");
    if (!err)
        err = zero__input_check("zero_param_desc", desc, sizeof *desc);
    return err ? err : zero__model_add_param(&rt->site.model, unit, desc, param);
}

int zero_buffer_add(struct zero_runtime *rt, const struct zero_buffer_desc *desc, uint32_t *buffer)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP), "zero_buffer_add()");
    if (!err)
        err = zero__input_check("zero_buffer_desc", desc, sizeof *desc);
    return err ? err : zero__model_add_buffer(&rt->site.model, desc, buffer);
}

int zero_activation_add(struct zero_runtime *rt, const struct zero_activation_desc *desc,
                        uint32_t *activation)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP), "zero_activation_add()");
    if (!err)
        err = zero__input_check("zero_activation_desc", desc, sizeof *desc);
    return err ? err : zero__model_add_activation(&rt->site.model, desc, activation);
}

int zero_set_optimizer(struct zero_runtime *rt, zero_optimizer_fn fn, void *arg)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP), "zero_set_optimizer()");

    if (err)
        return err;
    rt->site.callback = fn;
    rt->site.callback_arg = arg;
    rt->site.optimizer =
        fn ? ZERO__CALLBACK : (uint32_t)zero__option_int(rt->site.options, ZERO__OPT_OPTIMIZER);
    return 0;
}
