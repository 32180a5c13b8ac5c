/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that open and close, and the uses in them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "machine/clock.h"
#include "step/state.h"

/*
 * Compared by the ranks with every norm: hyperparameters of groups; orders that a step took without
 * declaring them, since a rank that alone has one would wait in its compilation; and how many
 * micro-batches the gradients are averaged over.
 */
static uint32_t norm_epoch(const struct zero__step *step)
{
    const uint64_t h = zero__groups_hash(&step->site->model) ^ zero__orders_hash(step);

    return (uint32_t)(h ^ h >> 32) + step->now.micro;
}

void zero__body_open(struct zero__step *step, uint32_t kind)
{
    step->settled = 0;
    step->now.kind = kind;
    step->now.body = &step->site->programs[0]->bodies[kind];
    step->now.epoch = norm_epoch(step);
    step->pc = 0;
    const struct zero__live *live = &step->now.body->live[ZERO__T_DEVICE];
    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
        if (live->most[c] > step->peak.most[c])
            step->peak.most[c] = live->most[c];
    if (live->peak > step->peak.all)
        step->peak.all = live->peak;
    zero__activations_open(step);
    zero__body_begin(step->run, &step->now);
}

/* The next body waits for what goes on behind an update, as far as it concerns it. */
int zero__body_settle(struct zero__step *step, uint64_t *waited_ns)
{
    return zero__lanes_drain(step->run, step->now.kind == ZERO__UPDATE_BODY, waited_ns);
}

int zero__step_not_held(const struct zero__step *step)
{
    return step->held ? zero__fail(-EBUSY, "unit %s is still held: release it first",
                                   step->site->model.units[step->use.unit].name)
                      : 0;
}

void zero__rest_contributed(struct zero__step *step)
{
    for (uint32_t u = 0; u < step->site->model.n_units; u++)
        if (zero__unit_is_early(&step->site->model, &step->site->states, u))
            step->now.contributed[u] = ZERO__ALL;
}

/* A micro-step ends when the next begins: uses that were left out are a deviation. */
int zero__step_close(struct zero__step *step)
{
    int err = zero__step_not_held(step);

    if (err)
        return err;
    if (step->phase != ZERO__PHASE_MICRO && step->phase != ZERO__PHASE_EVAL)
        return 0;
    if (!step->deviation.on && step->pc < step->now.body->n_ops)
        err = zero__deviate_begin(step);
    if (!err && step->deviation.on)
        err = zero__deviate_end(step);
    else if (!err && step->phase == ZERO__PHASE_MICRO && zero__step_updates(step))
        zero__rest_contributed(step);
    if (!err)
        err = zero__body_settle(step, &step->exposed_ns);
    if (!err && step->phase == ZERO__PHASE_EVAL)
        err = zero__history_compare(step->run, &step->now, zero__orders_hash(step));
    if (!err)
        step->phase = ZERO__PHASE_IDLE;
    return err;
}

/* Work between two steps, an evaluation for example, belongs to neither. */
static void measure_begin(struct zero__step *step)
{
    step->exposed_ns = 0;
    step->wire_bytes_seen = zero__wire_bytes(step->run);
    zero__times_begin(step->run);
}

static int last_micro_check(const struct zero__step *step, int last_micro)
{
    const uint32_t next = step->now.micro + 1, accum = step->site->recipe.accum;

    if (step->now.ended)
        return zero__fail(-EINVAL,
                          "micro-batch %u of a step whose last one was number %u: call "
                          "zero_update() first",
                          next, next - 1);
    if (next == accum && !last_micro)
        return zero__fail(-EINVAL,
                          "micro-batch %u of at most %u (ZERO_ACCUM) is the last: give "
                          "zero_begin() last_micro 1, or set a larger ZERO_ACCUM",
                          next, accum);
    return 0;
}

int zero__step_begin_check(const struct zero__step *step, uint32_t kind, int last_micro)
{
    int err =
        zero__step_phase(step, ZERO__IN(IDLE) | ZERO__IN(MICRO) | ZERO__IN(EVAL), "zero_begin()");

    if (!err)
        err = zero__step_not_held(step);
    if (err)
        return err;
    if (kind > ZERO_EVAL)
        return zero__fail(-EINVAL, "step kind %u is neither training nor evaluation", kind);
    if (kind == ZERO_TRAIN)
        return last_micro_check(step, last_micro);
    if (zero__step_updates(step))
        return zero__fail(-EBUSY,
                          "an evaluation between the last micro-batch and zero_update() would find "
                          "some parameters updated and some not (ZERO_UPDATE_AT=backward): call "
                          "zero_update() first");
    return 0;
}

int zero__step_wants_program(const struct zero__step *step)
{
    return step->now.micro == 0 && (step->next_order[ZERO_TRAIN] || step->next_order[ZERO_EVAL]);
}

/* Counts the micro-batch that begins, before its body is opened. */
static int micro_count(struct zero__step *step, int last_micro)
{
    const uint32_t accum = step->site->recipe.accum;

    if (step->now.micro == 0)
        measure_begin(step);
    step->now.micro++;
    step->now.ended = last_micro != 0;
    if (!last_micro || step->now.micro == accum)
        return 0;
    zero__times_unknown(step->run);
    /* The list of a last micro-batch of several has no waits for what goes on behind an update. */
    return step->now.micro == 1 ? zero__lanes_drain(step->run, 0, &step->exposed_ns) : 0;
}

int zero__step_open(struct zero__step *step, uint32_t kind, int last_micro)
{
    int err = kind == ZERO_TRAIN ? micro_count(step, last_micro) : 0;

    if (err)
        return err;
    zero__body_open(step, kind == ZERO_EVAL ? ZERO__EVALUATION
                          : last_micro      ? ZERO__LAST
                                            : ZERO__MICRO);
    step->phase = kind == ZERO_EVAL ? ZERO__PHASE_EVAL : ZERO__PHASE_MICRO;
    step->deviation.n_recorded = 0;
    err = zero__step_advance(step);
    zero__times_leave(step->run);
    return err;
}

static int no_step(struct zero__step *step, const char *call, uint32_t unit)
{
    char what[256];

    if (unit < step->site->model.n_units)
        snprintf(what, sizeof what, "%s(unit %s)", call, step->site->model.units[unit].name);
    else
        snprintf(what, sizeof what, "%s(unit %u)", call, unit);
    return zero__step_phase(step, ZERO__IN(MICRO) | ZERO__IN(EVAL), what);
}

static int use_check(struct zero__step *step, const char *call, uint32_t unit, uint32_t pass)
{
    int err = zero__body_is_open(step) ? zero__run_error(step->run) : no_step(step, call, unit);
    uint32_t kind = step->phase == ZERO__PHASE_EVAL ? ZERO_EVAL : ZERO_TRAIN;
    return err ? err : zero__model_use_check(&step->site->model, kind, unit, pass);
}

static int acquire_planned(struct zero__step *step, void *stream)
{
    const struct zero__op *op = &step->now.body->ops[step->pc];

    zero__times_come(step->run, &step->now, op);
    int err = zero__use_begin(step->run, &step->now, step->pc, stream, &step->exposed_ns);
    if (err)
        return err;
    step->pc++;
    zero__use_point(step, op);
    return 0;
}

int zero__step_acquire(struct zero__step *step, uint32_t unit, uint32_t pass, void *stream)
{
    int err = use_check(step, "zero_acquire", unit, pass);

    if (err)
        return err;
    if (step->held)
        return zero__fail(-EBUSY, "unit %s is still held: release it before unit %s",
                          step->site->model.units[step->use.unit].name,
                          step->site->model.units[unit].name);
    if (!step->deviation.on) {
        const struct zero__op *op =
            step->pc < step->now.body->n_ops ? &step->now.body->ops[step->pc] : NULL;
        if (!op || op->unit != unit || op->pass != pass)
            err = zero__deviate_begin(step);
    }
    if (!err)
        err = step->deviation.on ? zero__deviate_acquire(step, unit, pass)
                                 : acquire_planned(step, stream);
    if (err)
        return zero__while(err, "unit %s", step->site->model.units[unit].name);
    step->held = 1;
    step->use = (struct zero_use){unit, pass};
    return 0;
}

int zero__step_release(struct zero__step *step, uint32_t unit, uint32_t pass, void *stream)
{
    if (step->held && stream && zero__run_is_over(step->run) && !zero__device_is_host(step->site))
        zero__use_mark(step->run, stream);
    int err = use_check(step, "zero_release", unit, pass);

    if (err)
        return err;
    if (!step->held)
        return zero__fail(-EINVAL,
                          "unit %s is not held: zero_acquire() comes before "
                          "zero_release()",
                          step->site->model.units[unit].name);
    if (step->use.unit != unit || step->use.pass != pass)
        return zero__fail(-EINVAL,
                          "unit %s, %s, is not held: unit %s, %s, is, and is released "
                          "first",
                          step->site->model.units[unit].name, zero__pass_name(pass),
                          step->site->model.units[step->use.unit].name,
                          zero__pass_name(step->use.pass));
    step->held = 0;
    zero__use_forget(step, unit);
    if (step->deviation.on) {
        if (stream)
            err = step->site->dev_ops.stream_sync(step->site->dev, stream, step->site->timeout_ns);
        err = err ? zero__run_fail(step->run, step->site->rank, err, "release", zero__error_text())
                  : zero__deviate_release(step, unit, pass);
        zero__times_leave(step->run);
        return err;
    }
    const struct zero__op *op = &step->now.body->ops[step->pc - 1];
    zero__activations_end(step, op);
    err = zero__use_end(step->run, stream);
    if (!err)
        err = zero__step_advance(step);
    if (op->flags & ZERO__OP_LAST)
        step->now.contributed[unit] = step->now.kind == ZERO__LAST ? ZERO__ALL : ZERO__SOME;
    zero__times_leave(step->run);
    return err;
}
