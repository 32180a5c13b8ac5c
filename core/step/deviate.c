/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step whose order differs from the program, on all ranks alike. What was issued is drained (it
 * depends on the calls so far alone, so all ranks have issued the same), prefetching stops, and
 * every use then gathers and reduces by itself, one op at a time, in places that pool.c finds. The
 * order is recorded and becomes the program of the next step. This path allocates memory of the
 * host; it is the exception.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "schedule/passes.h"
#include "step/state.h"

int zero__deviate_create(struct zero__step *step)
{
    struct zero__deviation *d = &step->deviation;
    uint32_t n = step->site->model.n_segments + 1;

    d->param_at = malloc(n * sizeof *d->param_at);
    d->grad_at = malloc(n * sizeof *d->grad_at);
    d->region_at = malloc((step->site->model.n_buffers + 1) * sizeof *d->region_at);
    d->backward = calloc(step->site->model.n_units + 1, sizeof *d->backward);
    d->reduced = calloc(step->site->model.n_units + 1, sizeof *d->reduced);
    if (!d->param_at || !d->grad_at || !d->region_at || !d->backward || !d->reduced)
        return zero__fail(-ENOMEM, "no memory for a step out of order");
    return 0;
}

void zero__deviate_free(struct zero__step *step)
{
    struct zero__deviation *d = &step->deviation;

    zero__pool_free(step);
    free(d->recorded);
    free(d->param_at);
    free(d->grad_at);
    free(d->region_at);
    free(d->backward);
    free(d->reduced);
    zero__body_free(&d->body);
    *d = (struct zero__deviation){0};
}

/* ---- One-unit bodies ------------------------------------------------------------------------- */

/*
 * One at a time. It is the runtime's and not a variable of the function that runs it: when the job
 * ends, the application's thread leaves with ops in flight, and the progress thread still reads
 * their body to say which unit it was.
 */
struct zero__body *zero__deviate_body(struct zero__step *step)
{
    zero__body_free(&step->deviation.body);
    return &step->deviation.body;
}

/* Runs the ops of a body one by one; after an error the body stays until the runtime ends. */
int zero__deviate_run(struct zero__step *step, struct zero__body *b)
{
    struct zero__issuing now = step->now;
    int err = 0;

    now.body = b;
    now.kind = ZERO__N_BODIES; /* no times are kept */
    for (uint32_t i = 0; i < b->n_ops && !err; i++)
        if (b->ops[i].queue != ZERO__Q_NONE)
            err = zero__op_run(step->run, &now, i);
    return err;
}

/* Half of a use cannot be taken back: the step, and with it the runtime, has failed. */
static int failed(struct zero__step *step, int err)
{
    return err ? zero__run_fail(step->run, step->site->rank, err, "a step out of order",
                                zero__error_text())
               : 0;
}

static int reduce(struct zero__step *step, uint32_t unit)
{
    struct zero__body *b = zero__deviate_body(step);
    int last = step->now.ended;
    int err = zero__emit_reduction(&step->site->model, &step->site->recipe, &step->site->states,
                                   unit, ZERO__CLOSE, last, b);

    if (!err)
        err = zero__pool_place(step, b, step->deviation.grad_at);
    if (!err)
        err = zero__deviate_run(step, b);
    if (!err)
        zero__pool_return(step, b);
    zero__pool_leave(step, unit, step->deviation.grad_at);
    step->deviation.reduced[unit] = 1;
    step->now.contributed[unit] = last ? ZERO__ALL : ZERO__SOME;
    return err;
}

/*
 * An early update writes parameters that a peer may still read in place, and sums that are reduced
 * already do not tell that all ranks have come here: the reduction of a zero to add to them does.
 */
static enum zero__reduction finishing(const struct zero__step *step, uint32_t unit)
{
    int meets = step->site->ranks == 1 || step->site->recipe.boundary ||
                !zero__unit_is_early(&step->site->model, &step->site->states, unit);

    return step->now.contributed[unit] == ZERO__SOME && meets ? ZERO__FINISH : ZERO__ZEROED;
}

int zero__deviate_finish(struct zero__step *step, uint32_t unit)
{
    enum zero__reduction part = finishing(step, unit);
    struct zero__body *b = zero__deviate_body(step);
    int err = zero__emit_reduction(&step->site->model, &step->site->recipe, &step->site->states,
                                   unit, part, 1, b);

    zero__pool_empty(step); /* no transient outlives a micro-batch */
    if (!err)
        err = zero__pool_place(step, b, step->deviation.grad_at);
    if (!err)
        err = zero__deviate_run(step, b);
    zero__pool_leave(step, unit, step->deviation.grad_at);
    zero__pool_empty(step);
    return failed(step, err);
}

/* ---- The step -------------------------------------------------------------------------------- */

static uint32_t kind_now(const struct zero__step *step)
{
    return step->phase == ZERO__PHASE_EVAL ? ZERO_EVAL : ZERO_TRAIN;
}

static int use_record(struct zero__deviation *d, uint32_t unit, uint32_t pass)
{
    if (zero__grow(&d->recorded, &d->cap_recorded, d->n_recorded, sizeof *d->recorded))
        return zero__fail(-ENOMEM, "no memory to record an order");
    d->recorded[d->n_recorded++] = (struct zero_use){unit, pass};
    return 0;
}

/* What the program's ops before the deviation have left: gradients still being collected. */
static int planned_part(struct zero__step *step)
{
    struct zero__deviation *d = &step->deviation;

    for (uint32_t i = 0; i < step->pc; i++) {
        const struct zero__op *op = &step->now.body->ops[i];
        if (op->kind != ZERO__COMPUTE)
            continue;
        int err = use_record(d, op->unit, op->pass);
        if (err)
            return err;
        if (op->pass == ZERO_FORWARD || !zero__unit_trains(&step->site->model, op->unit))
            continue;
        d->backward[op->unit]++;
        d->reduced[op->unit] = (op->flags & ZERO__OP_LAST) != 0;
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
            const struct zero__access *x = &step->now.body->accesses[a];
            const struct zero__buffer *f =
                zero__buffer_of(&step->site->states, step->now.body, x->buffer);
            if (x->role == ZERO__R_GRAD && f->transient)
                d->grad_at[x->segment] = op->flags & ZERO__OP_LAST ? ZERO__NOWHERE : f->offset;
        }
    }
    return 0;
}

/*
 * The whole list has been issued, and with it the updates of units that no use contributes to, as
 * of those that have been reduced.
 */
static void rest_is_reduced(struct zero__step *step)
{
    zero__rest_contributed(step);
    for (uint32_t u = 0; u < step->site->model.n_units; u++)
        step->deviation.reduced[u] |= step->now.contributed[u] == ZERO__ALL;
}

/* Declared buffers that live now, and activations that are there. */
static int keeps_place(const struct zero__step *step, const struct zero__buffer *f)
{
    if (f->declared == ZERO_NONE || !f->bytes)
        return 0;
    if (step->site->model.buffers[f->declared].activation)
        return zero__activations_keeps(step, f->declared);
    int begun = step->site->model.buffers[f->declared].desc.from_unit == ZERO_WHOLE_STEP;
    return (begun || f->first < step->pc) && f->last >= step->pc;
}

int zero__deviate_begin(struct zero__step *step)
{
    struct zero__deviation *d = &step->deviation;
    uint32_t n = step->site->model.n_segments;
    int err = zero__lanes_drain(step->run, 0, NULL);

    if (err)
        return err;
    zero__log(&step->site->log, ZERO_LOG_INFO, "engine",
              "this step leaves the declared order after %u ops", step->pc);
    zero__times_unknown(step->run);
    zero__pool_empty(step);
    d->n_recorded = 0;
    memset(d->param_at, 0xff, n * sizeof *d->param_at);
    memset(d->grad_at, 0xff, n * sizeof *d->grad_at);
    memset(d->region_at, 0xff, step->site->model.n_buffers * sizeof *d->region_at);
    memset(d->backward, 0, step->site->model.n_units * sizeof *d->backward);
    memset(d->reduced, 0, step->site->model.n_units);
    err = planned_part(step);
    if (step->pc == step->now.body->n_ops && zero__step_updates(step) &&
        step->phase == ZERO__PHASE_MICRO)
        rest_is_reduced(step);
    for (uint32_t i = 0; i < n && !err; i++)
        if (d->grad_at[i] != ZERO__NOWHERE)
            err = zero__pool_keep(step, d->grad_at[i],
                                  step->site->model.segments[i].padded *
                                      zero_dtype_bytes(step->site->model.segments[i].dtype));
    for (uint32_t i = 0; i < step->now.body->n_buffers && !err; i++) {
        const struct zero__buffer *f = &step->now.body->buffers[i];
        if (!keeps_place(step, f))
            continue;
        err = zero__pool_keep(step, f->offset, f->bytes);
        d->region_at[f->declared] = f->offset;
    }
    d->on = !err;
    return failed(step, err);
}

static int gradients_open(struct zero__step *step, uint32_t unit)
{
    struct zero__deviation *d = &step->deviation;

    if (d->reduced[unit])
        return zero__fail(-EINVAL, "one more backward use than the declared order has, after its "
                                   "gradient was reduced: declare the order with zero_set_order()");
    if (d->backward[unit] == 0) {
        struct zero__body *b = zero__deviate_body(step);
        int err = zero__emit_reduction(&step->site->model, &step->site->recipe, &step->site->states,
                                       unit, ZERO__OPEN, 0, b);
        if (!err)
            err = zero__pool_place(step, b, d->grad_at);
        if (!err)
            err = zero__deviate_run(step, b);
        if (err)
            return err;
    }
    FOR_TRAINABLE (&step->site->model, unit, i) {
        if (d->grad_at[i] != ZERO__NOWHERE)
            step->grad_now[i] = step->site->slabs[ZERO__SLAB_TRANSIENTS].base + d->grad_at[i];
        else
            step->grad_now[i] =
                zero__address(step->site, step->now.body, step->site->states.homes[i].grad, 0);
    }
    step->beta_now = d->backward[unit] ? 1.0f : 0.0f;
    return 0;
}

static int use_open(struct zero__step *step, uint32_t unit, uint32_t pass)
{
    struct zero__deviation *d = &step->deviation;

    if (zero__step_updates(step) && d->reduced[unit] &&
        zero__unit_is_early(&step->site->model, &step->site->states, unit))
        return zero__fail(-EINVAL,
                          "its parameters are those of the next step already, since its gradient "
                          "was reduced: with ZERO_UPDATE_AT=backward a unit's last backward use is "
                          "its last one; declare the order with zero_set_order() if it has more");
    int err = use_record(d, unit, pass);
    if (err)
        return err;
    struct zero__body *b = zero__deviate_body(step);
    err = zero__emit_gather(&step->site->model, &step->site->recipe, &step->site->states, unit, b);
    if (!err)
        err = zero__pool_place(step, b, d->param_at);
    if (!err)
        err = zero__deviate_run(step, b);
    if (err)
        return err;
    FOR_SEGMENTS (&step->site->model, unit, i)
        step->param_now[i] = d->param_at[i] != ZERO__NOWHERE
                                 ? step->site->slabs[ZERO__SLAB_TRANSIENTS].base + d->param_at[i]
                                 : zero__param_address(step->site, step->now.body, i,
                                                       step->site->states.homes[i].param);
    if (pass == ZERO_BACKWARD)
        err = gradients_open(step, unit);
    return err ? err : zero__activations_deviate(step, unit, pass);
}

int zero__deviate_acquire(struct zero__step *step, uint32_t unit, uint32_t pass)
{
    return failed(step, use_open(step, unit, pass));
}

static uint32_t uses_count(const struct zero_use *uses, uint32_t n, uint32_t unit, uint32_t pass)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++)
        found += uses[i].unit == unit && uses[i].pass == pass;
    return found;
}

/* In the order of this kind of step. */
static uint32_t declared_uses(const struct zero__step *step, uint32_t unit, uint32_t pass)
{
    const struct zero__program *p = step->site->programs[0];

    return uses_count(p->uses[kind_now(step)], p->n_uses[kind_now(step)], unit, pass);
}

int64_t zero__deviate_beyond(const struct zero__step *step, uint32_t unit, uint32_t pass)
{
    const struct zero__deviation *d = &step->deviation;

    return (int64_t)uses_count(d->recorded, d->n_recorded, unit, pass) -
           (int64_t)declared_uses(step, unit, pass);
}

int zero__deviate_release(struct zero__step *step, uint32_t unit, uint32_t pass)
{
    int err = zero__activations_deviate_end(step);

    zero__pool_leave(step, unit, step->deviation.param_at);
    if (err)
        return failed(step, err);
    if (pass == ZERO_FORWARD || !zero__unit_trains(&step->site->model, unit))
        return 0;
    if (++step->deviation.backward[unit] >= declared_uses(step, unit, ZERO_BACKWARD))
        return failed(step, reduce(step, unit));
    return 0;
}

int zero__deviate_region(struct zero__step *step, uint32_t buffer, void **p)
{
    uint64_t *at = &step->deviation.region_at[buffer],
             bytes = step->site->model.buffers[buffer].desc.bytes;
    uint32_t id = step->now.body->declared[buffer];
    const struct zero__buffer *f =
        id == ZERO_NONE ? NULL : zero__buffer_of(&step->site->states, step->now.body, id);
    int err = 0;

    if (*at == ZERO__NOWHERE && f && zero__pool_is_free(step, f->offset, f->bytes)) {
        *at = f->offset;
        err = zero__pool_keep(step, f->offset, f->bytes);
    } else if (*at == ZERO__NOWHERE) {
        err = zero__pool_take(step, bytes, at);
    }
    if (err) {
        *at = ZERO__NOWHERE;
        return zero__while(err, "buffer %s", step->site->model.buffers[buffer].name);
    }
    *p = step->site->slabs[ZERO__SLAB_TRANSIENTS].base + *at;
    return 0;
}

int zero__deviate_end(struct zero__step *step)
{
    struct zero__deviation *d = &step->deviation;
    uint32_t kind = kind_now(step);
    int err = 0;

    zero__activations_deviate_close(step);
    for (uint32_t u = 0; u < step->site->model.n_units && !err; u++)
        if (d->backward[u] && !d->reduced[u])
            err = reduce(step, u);
    d->on = 0;
    step->pc = step->now.body->n_ops;
    if (err || d->n_recorded == 0)
        return failed(step, err);
    step->next_order[kind] = 1;
    step->recorded_order[kind] = 1;
    return failed(step, zero__model_set_order(step->model, kind, d->recorded, d->n_recorded));
}
