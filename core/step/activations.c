/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations from the application's side: where they are in the uses that produce and consume
 * them, and what was saved. Moving them is the step program's business: its ops are issued by
 * release and run before the consuming use is acquired, so nothing here waits. In a step out of
 * order they are moved here, one at a time, between the pool and the places that the program has
 * for them.
 */
#include <errno.h>
#include <string.h>

#include "base/status.h"
#include "schedule/passes.h"
#include "step/state.h"

/* ---- In the order of the program ------------------------------------------------------------- */

void zero__activations_open(struct zero__step *step)
{
    for (uint32_t i = 0; i < step->site->model.n_buffers; i++)
        step->activations[i] = (struct zero__activation){.taken = ZERO__NOWHERE};
}

void zero__activations_use(struct zero__step *step, const struct zero__op *op)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        const struct zero__access *x = &step->now.body->accesses[a];
        if (x->role != ZERO__R_PRODUCED && x->role != ZERO__R_CONSUMED)
            continue;
        const struct zero__buffer *f =
            zero__buffer_of(&step->site->states, step->now.body, x->buffer);
        step->activations[f->declared].now =
            zero__address(step->site, step->now.body, x->buffer, 0);
        step->activations[f->declared].consumed = x->role == ZERO__R_CONSUMED;
    }
}

void zero__activations_end(struct zero__step *step, const struct zero__op *op)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        const struct zero__access *x = &step->now.body->accesses[a];
        if (x->role != ZERO__R_PRODUCED && x->role != ZERO__R_CONSUMED)
            continue;
        const struct zero__buffer *f =
            zero__buffer_of(&step->site->states, step->now.body, x->buffer);
        step->activations[f->declared].now = NULL;
    }
}

/* ---- Out of order ---------------------------------------------------------------------------- */

/* Between its place on the device and where it is kept. The application has ended what it did. */
static int move(struct zero__step *step, uint32_t i, int out)
{
    const struct zero__buffer *away =
        zero__buffer_of(&step->site->states, step->now.body, step->now.body->away[i]);
    struct zero__activation *a = &step->activations[i];

    if (away->tier == ZERO__T_DISK)
        return zero__storage_move(step->run, away->offset, a->bytes, out ? NULL : a->now,
                                  out ? a->now : NULL);
    struct zero__body *b = zero__deviate_body(step);
    int err = zero__emit_move(&step->site->model, &step->site->states, step->now.body, i, a->taken,
                              out, b);
    return err ? err : zero__deviate_run(step, b);
}

/* Does its planned place on the device hold it until it is consumed? */
static int stays(const struct zero__step *step, uint32_t i)
{
    const struct zero__body *b = step->now.body;

    for (uint32_t k = 0; k < b->n_accesses && b->away[i] == ZERO_NONE; k++)
        if (b->accesses[k].role == ZERO__R_CONSUMED && b->accesses[k].buffer == b->declared[i])
            return 1;
    return 0;
}

int zero__activations_keeps(const struct zero__step *step, uint32_t i)
{
    return step->activations[i].bytes && stays(step, i);
}

/* A step out of order knows the use that consumes it by its number alone. */
static int64_t uses_beyond(const struct zero__step *step, uint32_t i)
{
    const struct zero_buffer_desc *d = &step->site->model.buffers[i].desc;

    return zero__deviate_beyond(step, d->to_unit, d->to_pass);
}

/* What does not leave the device, and was not saved before this step left the order, stays in the
 * pool until it is consumed: in the last of the uses that may do so. */
static int open_one(struct zero__step *step, uint32_t i, int consumed)
{
    struct zero__activation *a = &step->activations[i];
    int err = 0;

    a->consumed = consumed;
    if (consumed && a->taken == ZERO__NOWHERE && step->now.body->away[i] == ZERO_NONE) {
        /* Behind the last use its place is another's: then it is nowhere. */
        if (uses_beyond(step, i) <= 0)
            a->now = zero__address(step->site, step->now.body, step->now.body->declared[i], 0);
        return 0;
    }
    if (a->taken == ZERO__NOWHERE)
        err = zero__pool_take(step, step->site->model.buffers[i].desc.bytes, &a->taken);
    if (err)
        return zero__while(err, "activation %s", step->site->model.buffers[i].name);
    a->now = step->site->slabs[ZERO__SLAB_TRANSIENTS].base + a->taken;
    return consumed && step->now.body->away[i] != ZERO_NONE ? move(step, i, 0) : 0;
}

int zero__activations_deviate(struct zero__step *step, uint32_t unit, uint32_t pass)
{
    int err = 0;

    for (uint32_t i = 0; i < step->site->model.n_buffers && !err; i++) {
        const struct zero_buffer_desc *d = &step->site->model.buffers[i].desc;
        struct zero__activation *a = &step->activations[i];
        if (!step->site->model.buffers[i].activation)
            continue;
        /* The program saw no use that consumes it, so the room is another's by now. */
        if (a->bytes && a->taken == ZERO__NOWHERE && step->now.body->away[i] == ZERO_NONE &&
            !stays(step, i))
            a->bytes = 0;
        int saved = a->bytes != 0;
        if (saved ? d->to_unit == unit && d->to_pass == pass
                  : d->from_unit == unit && d->from_pass == pass)
            err = open_one(step, i, saved);
    }
    return err;
}

/* Is it in the pool for a use that follows? An evaluation keeps what one of its own consumes. */
static int is_kept(const struct zero__step *step, uint32_t i)
{
    const struct zero__activation *a = &step->activations[i];

    return a->bytes && step->now.body->away[i] == ZERO_NONE &&
           (step->phase != ZERO__PHASE_EVAL || stays(step, i)) &&
           (!a->consumed || uses_beyond(step, i) < 0);
}

static void place_leave(struct zero__step *step, struct zero__activation *a)
{
    if (a->taken != ZERO__NOWHERE)
        zero__pool_drop(step, a->taken);
    a->taken = ZERO__NOWHERE;
}

int zero__activations_deviate_end(struct zero__step *step)
{
    int err = 0;

    for (uint32_t i = 0; i < step->site->model.n_buffers; i++) {
        struct zero__activation *a = &step->activations[i];
        if (a->now && a->bytes && !a->consumed && step->now.body->away[i] != ZERO_NONE && !err)
            err = move(step, i, 1);
        if (!is_kept(step, i))
            place_leave(step, a);
        a->now = NULL;
    }
    return err;
}

void zero__activations_deviate_close(struct zero__step *step)
{
    for (uint32_t i = 0; i < step->site->model.n_buffers; i++)
        place_leave(step, &step->activations[i]);
}

/* ---- The application's calls ----------------------------------------------------------------- */

/* The activation, in the use that produces it (or consumes it), also after an error elsewhere. */
static int find(const struct zero__step *step, uint32_t activation, int consumed, const char *what,
                struct zero__activation **out)
{
    int err = zero__body_is_open(step)
                  ? 0
                  : zero__step_phase(step, ZERO__IN(MICRO) | ZERO__IN(EVAL), what);

    if (err)
        return err;
    if (activation >= step->site->model.n_buffers ||
        !step->site->model.buffers[activation].activation)
        return zero__fail(-EINVAL, "%s: %u is not an activation that was added", what, activation);
    const struct zero__declared *d = &step->site->model.buffers[activation];
    uint32_t unit = consumed ? d->desc.to_unit : d->desc.from_unit;
    uint32_t pass = consumed ? d->desc.to_pass : d->desc.from_pass;
    struct zero__activation *a = &step->activations[activation];
    if (step->held && a->now && a->consumed == consumed) {
        *out = a;
        return 0;
    }
    if (consumed && !a->bytes)
        return zero__fail(-ENODATA, "%s: activation %s was not saved in this micro-step", what,
                          d->name);
    return zero__fail(-EINVAL,
                      "%s: activation %s is %s in the %s %s use of unit %s, which is not "
                      "held",
                      what, d->name, consumed ? "consumed" : "produced",
                      consumed ? "last" : "first", zero__pass_name(pass),
                      step->site->model.units[unit].name);
}

void *zero__step_activation(const struct zero__step *step, uint32_t activation)
{
    struct zero__activation *a = NULL;
    int err = find(step, activation, 0, "zero_activation()", &a);

    return err ? NULL : a->now;
}

int zero__step_activation_save(struct zero__step *step, uint32_t activation, const void *from,
                               uint64_t bytes, void *stream)
{
    struct zero__activation *a = NULL;
    int err = zero__run_error(step->run);

    if (err || (err = find(step, activation, 0, "zero_activation_save()", &a)))
        return err;
    const struct zero__declared *d = &step->site->model.buffers[activation];
    if (a->bytes)
        return zero__fail(-EALREADY, "activation %s is saved already in this use", d->name);
    if (bytes == 0 || bytes > d->desc.bytes)
        return zero__fail(-EINVAL, "activation %s: %llu bytes to save, 1 to %llu are declared",
                          d->name, (unsigned long long)bytes, (unsigned long long)d->desc.bytes);
    if (from && from != a->now && stream)
        err = step->site->dev_ops.copy(step->site->dev, a->now, from, bytes, stream);
    else if (from && from != a->now)
        err = zero__device_copy(step->run, a->now, from, bytes);
    if (!err) {
        a->bytes = bytes;
        return 0;
    }
    zero__while(err, "activation %s", d->name);
    if (err != -EINVAL) /* which refuses the arguments: nothing has begun */
        zero__run_fail(step->run, step->site->rank, err, "save", zero__error_text());
    return err;
}

int zero__step_activation_restore(const struct zero__step *step, uint32_t activation, void **p,
                                  uint64_t *bytes)
{
    struct zero__activation *a = NULL;
    int err = find(step, activation, 1, "zero_activation_restore()", &a);

    if (!err && !a->bytes)
        err = zero__fail(-ENODATA, "activation %s was not saved in this micro-step",
                         step->site->model.buffers[activation].name);
    if (err)
        return err;
    *p = a->now;
    if (bytes)
        *bytes = a->bytes;
    return 0;
}
