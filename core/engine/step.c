/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application's thread in a step: begin opens a body, acquire and release stand around its
 * compute ops and issue the rest of the list as far as they are allowed to, update runs the update
 * body. What is issued depends on the sequence of these calls alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "machine/clock.h"

/* Issues ops up to the next compute op, or the end. */
static int advance(struct zero_runtime *rt)
{
    int err = 0;

    pthread_mutex_lock(&rt->lock);
    for (; rt->pc < rt->body->n_ops && rt->body->ops[rt->pc].kind != ZERO__COMPUTE; rt->pc++) {
        if (rt->body->ops[rt->pc].queue == ZERO__Q_NONE)
            continue;
        err = zero__lane_issue(rt, rt->pc);
        if (err)
            break;
    }
    pthread_mutex_unlock(&rt->lock);
    zero__progress_wake(rt);
    return err;
}

static void body_open(struct zero_runtime *rt, uint32_t kind)
{
    rt->settled = 0;
    rt->body_kind = kind;
    rt->body = &rt->programs[0]->bodies[kind];
    rt->pc = 0;
    const struct zero__live *live = &rt->body->live[ZERO__T_DEVICE];
    for (uint32_t c = 0; c < ZERO_N_CLASSES; c++)
        if (live->most[c] > rt->peak.most[c])
            rt->peak.most[c] = live->most[c];
    if (live->peak > rt->peak.all)
        rt->peak.all = live->peak;
    zero__activations_open(rt);
    pthread_mutex_lock(&rt->lock);
    zero__lanes_mark(rt);
    for (uint32_t q = 0; q < ZERO__N_QUEUES && kind == ZERO__UPDATE_BODY; q++)
        rt->update_base[q] = rt->lanes[q].base;
    pthread_mutex_unlock(&rt->lock);
    rt->has_updated |= kind == ZERO__UPDATE_BODY;
    zero__storage_count(rt);
}

/*
 * Everything of the body is done but what goes on behind an update: the next body waits for what of
 * it concerns it.
 */
static int body_settle(struct zero_runtime *rt, uint64_t *waited_ns)
{
    return zero__lanes_drain(rt, rt->body_kind == ZERO__UPDATE_BODY, waited_ns);
}

static int not_held(const struct zero_runtime *rt)
{
    return rt->held ? zero__fail(-EBUSY, "unit %s is still held: release it first",
                                 rt->model.units[rt->use.unit].name)
                    : 0;
}

void zero__rest_contributed(struct zero_runtime *rt)
{
    for (uint32_t u = 0; u < rt->model.n_units; u++)
        if (zero__unit_is_early(&rt->model, &rt->states, u))
            rt->contributed[u] = ALL;
}

/* A micro-step ends when the next begins: uses that were left out are a deviation. */
int zero__body_close(struct zero_runtime *rt)
{
    int err = not_held(rt);

    if (err)
        return err;
    if (rt->phase != PHASE_MICRO && rt->phase != PHASE_EVAL)
        return 0;
    if (!rt->dev_step.on && rt->pc < rt->body->n_ops)
        err = zero__deviate_begin(rt);
    if (!err && rt->dev_step.on)
        err = zero__deviate_end(rt);
    else if (!err && rt->phase == PHASE_MICRO && zero__step_updates(rt))
        zero__rest_contributed(rt);
    if (!err)
        err = body_settle(rt, &rt->exposed_ns);
    if (!err && rt->phase == PHASE_EVAL)
        err = zero__history_compare(rt);
    if (!err)
        rt->phase = PHASE_IDLE;
    return err;
}

/* What lies between two steps, an evaluation for example, belongs to neither. */
static void measure_begin(struct zero_runtime *rt)
{
    rt->exposed_ns = 0;
    rt->wire_bytes_seen = zero__wire_bytes(rt);
    pthread_mutex_lock(&rt->lock);
    rt->work = (struct work){0};
    pthread_mutex_unlock(&rt->lock);
}

int zero_begin(struct zero_runtime *rt, uint32_t kind, int last_micro)
{
    int err =
        zero__runtime_phase(rt, IN(PHASE_IDLE) | IN(PHASE_MICRO) | IN(PHASE_EVAL), "zero_begin()");

    if (!err)
        err = not_held(rt);
    if (err)
        return err;
    if (kind > ZERO_EVAL)
        return zero__fail(-EINVAL, "step kind %u is neither training nor evaluation", kind);
    if (kind == ZERO_TRAIN && rt->micro >= rt->recipe.accum)
        return zero__fail(-EINVAL,
                          "micro-batch %u of a step of %u (ZERO_ACCUM): call "
                          "zero_update() first",
                          rt->micro + 1, rt->recipe.accum);
    if (kind == ZERO_TRAIN && (last_micro != 0) != (rt->micro + 1 == rt->recipe.accum))
        return zero__fail(-EINVAL,
                          "micro-batch %u of %u (ZERO_ACCUM) is %sthe last: give zero_begin() "
                          "last_micro %d",
                          rt->micro + 1, rt->recipe.accum, last_micro ? "not " : "", !last_micro);
    if (kind == ZERO_EVAL && zero__step_updates(rt))
        return zero__fail(-EBUSY,
                          "an evaluation between the last micro-batch and zero_update() would find "
                          "some parameters updated and some not (ZERO_UPDATE_AT=backward): call "
                          "zero_update() first");
    err = zero__body_close(rt);
    if (err)
        return err;
    if (rt->micro == 0 && (rt->next_order[ZERO_TRAIN] || rt->next_order[ZERO_EVAL])) {
        err = zero__program_install(rt);
        if (err && !zero__orders_forget(rt))
            return err;
    }
    if (kind == ZERO_TRAIN && rt->micro == 0)
        measure_begin(rt);
    body_open(rt, kind == ZERO_EVAL ? ZERO__EVALUATION : last_micro ? ZERO__LAST : ZERO__MICRO);
    if (kind == ZERO_TRAIN)
        rt->micro++;
    rt->phase = kind == ZERO_EVAL ? PHASE_EVAL : PHASE_MICRO;
    rt->dev_step.n_recorded = 0;
    err = advance(rt);
    zero__times_leave(rt);
    return err;
}

static int no_step(struct zero_runtime *rt, const char *call, uint32_t unit)
{
    char what[256];

    if (unit < rt->model.n_units)
        snprintf(what, sizeof what, "%s(unit %s)", call, rt->model.units[unit].name);
    else
        snprintf(what, sizeof what, "%s(unit %u)", call, unit);
    return zero__runtime_phase(rt, IN(PHASE_MICRO) | IN(PHASE_EVAL), what);
}

static int use_check(struct zero_runtime *rt, const char *call, uint32_t unit, uint32_t pass)
{
    const int is_open = rt->phase == PHASE_MICRO || rt->phase == PHASE_EVAL;
    int err = is_open ? zero__runtime_error(rt) : no_step(rt, call, unit);
    uint32_t kind = rt->phase == PHASE_EVAL ? ZERO_EVAL : ZERO_TRAIN;
    return err ? err : zero__model_use_check(&rt->model, kind, unit, pass);
}

/*
 * Regions share bytes as if uses were over one after another, whatever their streams. The stream
 * waits for those from `first` on.
 */
static int uses_order(struct zero_runtime *rt, void *stream, uint64_t first)
{
    struct lane *l = &rt->lanes[ZERO__Q_COMPUTE];
    int err = 0;

    for (uint64_t o = first; o < rt->use_ordinal && !err; o++)
        err = rt->dev_ops.stream_wait(rt->dev, stream, zero__lane_slot(l, o)->event);
    return err ? zero__runtime_fail(rt, rt->rank, err, "acquire", zero__error_text()) : 0;
}

static int acquire_planned(struct zero_runtime *rt, void *stream)
{
    const struct zero__op *op = &rt->body->ops[rt->pc];
    struct lane *l = &rt->lanes[ZERO__Q_COMPUTE];
    uint64_t waits[ZERO__N_QUEUES];

    zero__times_come(rt, op);
    pthread_mutex_lock(&rt->lock);
    int err = zero__lane_issue(rt, rt->pc);
    uint64_t undone = l->done + 1;
    rt->use_ordinal = l->issued;
    if (!err)
        memcpy(waits, zero__lane_slot(l, l->issued)->waits, sizeof waits);
    pthread_mutex_unlock(&rt->lock);
    if (!stream)
        waits[ZERO__Q_COMPUTE] = rt->use_ordinal - 1;
    else if (!err && stream != rt->use_stream)
        err = uses_order(rt, stream, undone);
    if (!err)
        err = zero__lanes_wait(rt, waits, &rt->exposed_ns);
    if (err)
        return err;
    zero__lane_slot(l, rt->use_ordinal)->start_ns = zero__now_ns();
    rt->pc++;
    zero__track_start(rt, ZERO__Q_COMPUTE, zero__lane_slot(l, rt->use_ordinal), rt->use_ordinal);
    zero__use_point(rt, op);
    return 0;
}

int zero_acquire(struct zero_runtime *rt, uint32_t unit, uint32_t pass, void *stream)
{
    int err = use_check(rt, "zero_acquire", unit, pass);

    if (err)
        return err;
    if (rt->held)
        return zero__fail(-EBUSY, "unit %s is still held: release it before unit %s",
                          rt->model.units[rt->use.unit].name, rt->model.units[unit].name);
    if (!rt->dev_step.on) {
        const struct zero__op *op = rt->pc < rt->body->n_ops ? &rt->body->ops[rt->pc] : NULL;
        if (!op || op->unit != unit || op->pass != pass)
            err = zero__deviate_begin(rt);
    }
    if (!err)
        err = rt->dev_step.on ? zero__deviate_acquire(rt, unit, pass)
                              : acquire_planned(rt, stream);
    if (err)
        return zero__while(err, "unit %s", rt->model.units[unit].name);
    /* The data is there, so whatever the stream does later finds it. */
    if (!rt->dev_step.on)
        zero__track_acquired(rt, stream);
    rt->held = 1;
    rt->use = (struct zero_use){unit, pass};
    return 0;
}

/*
 * The compute op is done now, or when the stream gets there. The event is recorded without the
 * lock: a stream that is full makes that wait, and until `released` the event is nobody else's.
 */
static int compute_end(struct zero_runtime *rt, void *stream)
{
    struct lane *l = &rt->lanes[ZERO__Q_COMPUTE];
    struct slot *s = zero__lane_slot(l, rt->use_ordinal);
    int err = stream ? rt->dev_ops.event_record(rt->dev, s->event, stream) : 0;

    pthread_mutex_lock(&rt->lock);
    if (stream) {
        s->on_stream = 1;
    } else {
        /* Earlier uses may still run on a stream: ordinals are done in order. */
        if (l->done + 1 == rt->use_ordinal) {
            zero__lane_done(rt, ZERO__Q_COMPUTE, zero__now_ns());
        } else {
            s->on_stream = 1;
            err = rt->dev_ops.event_record(rt->dev, s->event, rt->lanes[ZERO__Q_CPU].stream);
        }
    }
    s->released = !err;
    pthread_mutex_unlock(&rt->lock);
    return err ? zero__runtime_fail(rt, rt->rank, err, "release", zero__error_text()) : 0;
}

/*
 * A use that is over in a stream when the runtime has failed: what the stream still does there, the
 * device waits for before its memory goes. Of an application's stream it knows nothing else.
 */
static void use_mark(struct zero_runtime *rt, void *stream)
{
    struct lane *l = &rt->lanes[ZERO__Q_COMPUTE];

    rt->dev_ops.event_record(rt->dev, zero__lane_slot(l, rt->use_ordinal)->event, stream);
}

int zero_release(struct zero_runtime *rt, uint32_t unit, uint32_t pass, void *stream)
{
    if (rt->held && stream && zero__runtime_over(rt) && !zero__device_is_host(rt))
        use_mark(rt, stream);
    int err = use_check(rt, "zero_release", unit, pass);

    if (err)
        return err;
    if (!rt->held)
        return zero__fail(-EINVAL, "unit %s is not held: zero_acquire() comes before "
                          "zero_release()", rt->model.units[unit].name);
    if (rt->use.unit != unit || rt->use.pass != pass)
        return zero__fail(-EINVAL, "unit %s, %s, is not held: unit %s, %s, is, and is released "
                          "first", rt->model.units[unit].name, zero__pass_name(pass),
                          rt->model.units[rt->use.unit].name, zero__pass_name(rt->use.pass));
    rt->held = 0;
    zero__use_forget(rt, unit);
    if (rt->dev_step.on) {
        if (stream)
            err = rt->dev_ops.stream_sync(rt->dev, stream, rt->timeout_ns);
        err = err ? zero__runtime_fail(rt, rt->rank, err, "release", zero__error_text())
                  : zero__deviate_release(rt, unit, pass);
        zero__times_leave(rt);
        return err;
    }
    const struct zero__op *op = &rt->body->ops[rt->pc - 1];
    zero__activations_end(rt);
    zero__track_released(rt, stream);
    rt->use_stream = stream;
    err = compute_end(rt, stream);
    if (!err)
        err = advance(rt);
    if (op->flags & ZERO__OP_LAST)
        rt->contributed[unit] = rt->body_kind == ZERO__LAST ? ALL : SOME;
    zero__times_leave(rt);
    return err;
}

/*
 * Gradients that no use contributed to are zero; what the last micro-batch did not add to is still
 * as the others left it.
 */
static int missing_make(struct zero_runtime *rt)
{
    int err = 0;

    for (uint32_t u = 0; u < rt->model.n_units && !err; u++)
        if (zero__unit_trains(&rt->model, u) && rt->contributed[u] != ALL)
            err = rt->contributed[u] == SOME || zero__unit_is_early(&rt->model, &rt->states, u)
                      ? zero__deviate_finish(rt, u)
                      : zero__gradients_zero(rt, u);
    return err;
}

static int update_body(struct zero_runtime *rt)
{
    int err = zero__history_compare(rt);

    if (!err)
        err = missing_make(rt);
    if (!err) {
        body_open(rt, ZERO__UPDATE_BODY);
        err = advance(rt);
    }
    if (!err)
        err = body_settle(rt, NULL);
    return zero__runtime_fail_alone(rt, err, "update");
}

int zero_update(struct zero_runtime *rt, struct zero_step_info *info)
{
    int64_t began = zero__now_ns();
    int err =
        zero__runtime_phase(rt, IN(PHASE_IDLE) | IN(PHASE_MICRO) | IN(PHASE_EVAL), "zero_update()");

    if (!err)
        err = not_held(rt);
    if (err)
        return err;
    if (rt->micro != rt->recipe.accum)
        return zero__fail(-EINVAL,
                          "zero_update() after %u of %u micro-batches (ZERO_ACCUM): call "
                          "zero_begin() for %u more first",
                          rt->micro, rt->recipe.accum, rt->recipe.accum - rt->micro);
    zero__times_come(rt, NULL);
    uint64_t exposed = rt->exposed_ns;
    err = zero__body_close(rt);
    began += (int64_t)(rt->exposed_ns - exposed); /* the last reductions: counted once */
    if (!err)
        err = update_body(rt);
    if (err)
        return err;
    zero__times_keep(rt);
    err = zero__step_info(rt, began, &rt->last_info);
    rt->micro = 0;
    memset(rt->contributed, 0, rt->model.n_units);
    if (err)
        return zero__runtime_fail(rt, rt->rank, err, "update", zero__error_text());
    if (info)
        *info = rt->last_info;
    return 0;
}
