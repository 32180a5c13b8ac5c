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
#include "engine/runtime.h"
#include "schedule/passes.h"

int zero__deviate_create(struct zero_runtime *rt)
{
    struct deviation *d = &rt->dev_step;
    uint32_t n = rt->model.n_segments + 1;

    d->param_at = malloc(n * sizeof *d->param_at);
    d->grad_at = malloc(n * sizeof *d->grad_at);
    d->region_at = malloc((rt->model.n_buffers + 1) * sizeof *d->region_at);
    d->backward = calloc(rt->model.n_units + 1, sizeof *d->backward);
    d->reduced = calloc(rt->model.n_units + 1, sizeof *d->reduced);
    if (!d->param_at || !d->grad_at || !d->region_at || !d->backward || !d->reduced)
        return zero__fail(-ENOMEM, "no memory for a step out of order");
    return 0;
}

void zero__deviate_free(struct zero_runtime *rt)
{
    struct deviation *d = &rt->dev_step;

    zero__pool_free(rt);
    free(d->recorded);
    free(d->param_at);
    free(d->grad_at);
    free(d->region_at);
    free(d->backward);
    free(d->reduced);
    zero__body_free(&d->body);
    *d = (struct deviation){0};
}

/* ---- One-unit bodies ------------------------------------------------------------------------- */

/*
 * One at a time. It is the runtime's and not a variable of the function that runs it: when the job
 * ends, the application's thread leaves with ops in flight, and the progress thread still reads
 * their body to say which unit it was.
 */
struct zero__body *zero__deviate_body(struct zero_runtime *rt)
{
    zero__body_free(&rt->dev_step.body);
    return &rt->dev_step.body;
}

/* Runs the ops of a body one by one; after an error the body stays until the runtime ends. */
int zero__deviate_run(struct zero_runtime *rt, struct zero__body *b)
{
    const struct zero__body *planned = rt->body;
    uint32_t kind = rt->body_kind;
    int err = 0;

    rt->body = b;
    rt->body_kind = ZERO__N_BODIES; /* no times are kept */
    for (uint32_t i = 0; i < b->n_ops && !err; i++) {
        if (b->ops[i].queue == ZERO__Q_NONE)
            continue;
        pthread_mutex_lock(&rt->lock);
        err = zero__lane_issue(rt, i);
        pthread_mutex_unlock(&rt->lock);
        zero__progress_wake(rt);
        if (!err)
            err = zero__lanes_drain(rt, 0, NULL);
    }
    rt->body = planned;
    rt->body_kind = kind;
    return err;
}

/* Half of a use cannot be taken back: the step, and with it the runtime, has failed. */
static int failed(struct zero_runtime *rt, int err)
{
    return err ? zero__runtime_fail(rt, rt->rank, err, "a step out of order", zero__error_text())
               : 0;
}

static int reduce(struct zero_runtime *rt, uint32_t unit)
{
    struct zero__body *b = zero__deviate_body(rt);
    int last = rt->micro == rt->recipe.accum;
    int err =
        zero__emit_reduction(&rt->model, &rt->recipe, &rt->states, unit, ZERO__CLOSE, last, b);

    if (!err)
        err = zero__pool_place(rt, b, rt->dev_step.grad_at);
    if (!err)
        err = zero__deviate_run(rt, b);
    if (!err)
        zero__pool_return(rt, b);
    zero__pool_leave(rt, unit, rt->dev_step.grad_at);
    rt->dev_step.reduced[unit] = 1;
    rt->contributed[unit] = last ? ALL : SOME;
    return err;
}

/*
 * An early update writes parameters that a peer may still read in place, and sums that are reduced
 * already do not tell that all ranks have come here: the reduction of a zero to add to them does.
 */
static enum zero__reduction finishing(const struct zero_runtime *rt, uint32_t unit)
{
    int meets = rt->ranks == 1 || rt->recipe.boundary ||
                !zero__unit_is_early(&rt->model, &rt->states, unit);

    return rt->contributed[unit] == SOME && meets ? ZERO__FINISH : ZERO__ZEROED;
}

int zero__deviate_finish(struct zero_runtime *rt, uint32_t unit)
{
    enum zero__reduction part = finishing(rt, unit);
    struct zero__body *b = zero__deviate_body(rt);
    int err = zero__emit_reduction(&rt->model, &rt->recipe, &rt->states, unit, part, 1, b);

    zero__pool_empty(rt); /* no transient outlives a micro-batch */
    if (!err)
        err = zero__pool_place(rt, b, rt->dev_step.grad_at);
    if (!err)
        err = zero__deviate_run(rt, b);
    zero__pool_leave(rt, unit, rt->dev_step.grad_at);
    zero__pool_empty(rt);
    return failed(rt, err);
}

/* ---- The step -------------------------------------------------------------------------------- */

static uint32_t kind_now(const struct zero_runtime *rt)
{
    return rt->phase == PHASE_EVAL ? ZERO_EVAL : ZERO_TRAIN;
}

static int use_record(struct deviation *d, uint32_t unit, uint32_t pass)
{
    if (zero__grow(&d->recorded, &d->cap_recorded, d->n_recorded, sizeof *d->recorded))
        return zero__fail(-ENOMEM, "no memory to record an order");
    d->recorded[d->n_recorded++] = (struct zero_use){unit, pass};
    return 0;
}

/* What the program's ops before the deviation have left: gradients still being collected. */
static int planned_part(struct zero_runtime *rt)
{
    struct deviation *d = &rt->dev_step;

    for (uint32_t i = 0; i < rt->pc; i++) {
        const struct zero__op *op = &rt->body->ops[i];
        if (op->kind != ZERO__COMPUTE)
            continue;
        int err = use_record(d, op->unit, op->pass);
        if (err)
            return err;
        if (op->pass == ZERO_FORWARD || !zero__unit_trains(&rt->model, op->unit))
            continue;
        d->backward[op->unit]++;
        d->reduced[op->unit] = (op->flags & ZERO__OP_LAST) != 0;
        for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
            const struct zero__access *x = &rt->body->accesses[a];
            const struct zero__buffer *f = zero__buffer_of(&rt->states, rt->body, x->buffer);
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
static void rest_is_reduced(struct zero_runtime *rt)
{
    zero__rest_contributed(rt);
    for (uint32_t u = 0; u < rt->model.n_units; u++)
        rt->dev_step.reduced[u] |= rt->contributed[u] == ALL;
}

/* Declared buffers that live now, and activations that are there. */
static int keeps_place(const struct zero_runtime *rt, const struct zero__buffer *f)
{
    if (f->declared == ZERO_NONE || !f->bytes)
        return 0;
    if (rt->model.buffers[f->declared].activation)
        return zero__activations_keeps(rt, f->declared);
    int begun = rt->model.buffers[f->declared].desc.from_unit == ZERO_WHOLE_STEP;
    return (begun || f->first < rt->pc) && f->last >= rt->pc;
}

int zero__deviate_begin(struct zero_runtime *rt)
{
    struct deviation *d = &rt->dev_step;
    uint32_t n = rt->model.n_segments;
    int err = zero__lanes_drain(rt, 0, NULL);

    if (err)
        return err;
    zero__log(&rt->log, ZERO_LOG_INFO, "engine", "this step leaves the declared order after %u ops",
              rt->pc);
    rt->work.unknown = 1;
    zero__pool_empty(rt);
    d->n_recorded = 0;
    memset(d->param_at, 0xff, n * sizeof *d->param_at);
    memset(d->grad_at, 0xff, n * sizeof *d->grad_at);
    memset(d->region_at, 0xff, rt->model.n_buffers * sizeof *d->region_at);
    memset(d->backward, 0, rt->model.n_units * sizeof *d->backward);
    memset(d->reduced, 0, rt->model.n_units);
    err = planned_part(rt);
    if (rt->pc == rt->body->n_ops && zero__step_updates(rt) && rt->phase == PHASE_MICRO)
        rest_is_reduced(rt);
    for (uint32_t i = 0; i < n && !err; i++)
        if (d->grad_at[i] != ZERO__NOWHERE)
            err = zero__pool_keep(rt, d->grad_at[i],
                                  rt->model.segments[i].padded *
                                      zero_dtype_bytes(rt->model.segments[i].dtype));
    for (uint32_t i = 0; i < rt->body->n_buffers && !err; i++) {
        const struct zero__buffer *f = &rt->body->buffers[i];
        if (!keeps_place(rt, f))
            continue;
        err = zero__pool_keep(rt, f->offset, f->bytes);
        d->region_at[f->declared] = f->offset;
    }
    d->on = !err;
    return failed(rt, err);
}

static int gradients_open(struct zero_runtime *rt, uint32_t unit)
{
    struct deviation *d = &rt->dev_step;

    if (d->reduced[unit])
        return zero__fail(-EINVAL, "one more backward use than the declared order has, after its "
                                   "gradient was reduced: declare the order with zero_set_order()");
    if (d->backward[unit] == 0) {
        struct zero__body *b = zero__deviate_body(rt);
        int err =
            zero__emit_reduction(&rt->model, &rt->recipe, &rt->states, unit, ZERO__OPEN, 0, b);
        if (!err)
            err = zero__pool_place(rt, b, d->grad_at);
        if (!err)
            err = zero__deviate_run(rt, b);
        if (err)
            return err;
    }
    FOR_TRAINABLE (&rt->model, unit, i) {
        if (d->grad_at[i] != ZERO__NOWHERE)
            rt->grad_now[i] = rt->slabs[SLAB_TRANSIENTS].base + d->grad_at[i];
        else
            rt->grad_now[i] = zero__address(rt, rt->body, rt->states.homes[i].grad, 0);
    }
    rt->beta_now = d->backward[unit] ? 1.0f : 0.0f;
    return 0;
}

static int use_open(struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    struct deviation *d = &rt->dev_step;

    if (zero__step_updates(rt) && d->reduced[unit] &&
        zero__unit_is_early(&rt->model, &rt->states, unit))
        return zero__fail(-EINVAL,
                          "its parameters are those of the next step already, since its gradient "
                          "was reduced: with ZERO_UPDATE_AT=backward a unit's last backward use is "
                          "its last one; declare the order with zero_set_order() if it has more");
    int err = use_record(d, unit, pass);
    if (err)
        return err;
    struct zero__body *b = zero__deviate_body(rt);
    err = zero__emit_gather(&rt->model, &rt->recipe, &rt->states, unit, b);
    if (!err)
        err = zero__pool_place(rt, b, d->param_at);
    if (!err)
        err = zero__deviate_run(rt, b);
    if (err)
        return err;
    FOR_SEGMENTS (&rt->model, unit, i)
        rt->param_now[i] = d->param_at[i] != ZERO__NOWHERE
                               ? rt->slabs[SLAB_TRANSIENTS].base + d->param_at[i]
                               : zero__param_address(rt, rt->body, i, rt->states.homes[i].param);
    if (pass == ZERO_BACKWARD)
        err = gradients_open(rt, unit);
    return err ? err : zero__activations_deviate(rt, unit, pass);
}

int zero__deviate_acquire(struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    return failed(rt, use_open(rt, unit, pass));
}

static uint32_t uses_count(const struct zero_use *uses, uint32_t n, uint32_t unit, uint32_t pass)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++)
        found += uses[i].unit == unit && uses[i].pass == pass;
    return found;
}

/* In the order of this kind of step. */
static uint32_t declared_uses(const struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    const struct zero__program *p = rt->programs[0];

    return uses_count(p->uses[kind_now(rt)], p->n_uses[kind_now(rt)], unit, pass);
}

int64_t zero__deviate_beyond(const struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    const struct deviation *d = &rt->dev_step;

    return (int64_t)uses_count(d->recorded, d->n_recorded, unit, pass) -
           (int64_t)declared_uses(rt, unit, pass);
}

int zero__deviate_release(struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    int err = zero__activations_deviate_end(rt);

    zero__pool_leave(rt, unit, rt->dev_step.param_at);
    if (err)
        return failed(rt, err);
    if (pass == ZERO_FORWARD || !zero__unit_trains(&rt->model, unit))
        return 0;
    if (++rt->dev_step.backward[unit] >= declared_uses(rt, unit, ZERO_BACKWARD))
        return failed(rt, reduce(rt, unit));
    return 0;
}

int zero__deviate_region(struct zero_runtime *rt, uint32_t buffer, void **p)
{
    uint64_t *at = &rt->dev_step.region_at[buffer], bytes = rt->model.buffers[buffer].desc.bytes;
    uint32_t id = rt->body->declared[buffer];
    const struct zero__buffer *f =
        id == ZERO_NONE ? NULL : zero__buffer_of(&rt->states, rt->body, id);
    int err = 0;

    if (*at == ZERO__NOWHERE && f && zero__pool_is_free(rt, f->offset, f->bytes)) {
        *at = f->offset;
        err = zero__pool_keep(rt, f->offset, f->bytes);
    } else if (*at == ZERO__NOWHERE) {
        err = zero__pool_take(rt, bytes, at);
    }
    if (err) {
        *at = ZERO__NOWHERE;
        return zero__while(err, "buffer %s", rt->model.buffers[buffer].name);
    }
    *p = rt->slabs[SLAB_TRANSIENTS].base + *at;
    return 0;
}

int zero__deviate_end(struct zero_runtime *rt)
{
    struct deviation *d = &rt->dev_step;
    uint32_t kind = kind_now(rt);
    int err = 0;

    zero__activations_deviate_close(rt);
    for (uint32_t u = 0; u < rt->model.n_units && !err; u++)
        if (d->backward[u] && !d->reduced[u])
            err = reduce(rt, u);
    d->on = 0;
    rt->pc = rt->body->n_ops;
    if (err || d->n_recorded == 0)
        return failed(rt, err);
    rt->next_order[kind] = 1;
    rt->recorded_order[kind] = 1;
    return failed(rt, zero__model_set_order(&rt->model, kind, d->recorded, d->n_recorded));
}
