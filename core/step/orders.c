/* SPDX-License-Identifier: Apache-2.0 */
/* Orders that wait to be compiled: declared by the program, or recorded by a step out of order. */
#include <xxhash.h>

#include "base/status.h"
#include "step/state.h"

void zero__orders_declared(struct zero__step *step, uint32_t kind)
{
    step->next_order[kind] = 1;
    step->recorded_order[kind] = 0;
}

void zero__orders_compiled(struct zero__step *step)
{
    step->next_order[ZERO_TRAIN] = step->next_order[ZERO_EVAL] = 0;
}

uint64_t zero__orders_hash(const struct zero__step *step)
{
    uint64_t h = 0;

    for (uint32_t k = 0; k < 2; k++) {
        const struct zero__order *o = &step->site->model.orders[k];
        if (step->next_order[k])
            h = XXH3_64bits_withSeed(o->uses, o->n * sizeof *o->uses, h + 1 + k);
    }
    return h;
}

int zero__orders_forget(struct zero__step *step)
{
    const struct zero__program *p = step->site->programs[0];

    if (zero__job_error(step->site->job, NULL) || !p) /* the job may know before the runtime does */
        return 0;
    for (uint32_t k = 0; k < 2; k++)
        if (step->next_order[k] && !step->recorded_order[k])
            return 0;
    zero__log(&step->site->log, ZERO_LOG_WARN, "engine",
              "steps leave the declared order, and the order they take cannot be compiled, so they "
              "run without prefetching: %s",
              zero__error_text());
    for (uint32_t k = 0; k < 2; k++) {
        int err = step->next_order[k]
                      ? zero__model_set_order(step->model, k, p->uses[k], p->n_uses[k])
                      : 0;
        if (zero__run_fail_alone(step->run, err, "zero_begin"))
            return 0;
        step->next_order[k] = 0;
    }
    return 1;
}
