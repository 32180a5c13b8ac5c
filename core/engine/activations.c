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

#include "base/input.h"
#include "base/status.h"
#include "engine/runtime.h"
#include "schedule/passes.h"

int zero_activation_add(struct zero_runtime *rt, const struct zero_activation_desc *desc,
                        uint32_t *activation)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP), "zero_activation_add()");
    if (!err)
        err = zero__input_check("zero_activation_desc", desc, sizeof *desc);
    return err ? err : zero__model_add_activation(&rt->model, desc, activation);
}

/* ---- In the order of the program ------------------------------------------------------------- */

void zero__activations_open(struct zero_runtime *rt)
{
    for (uint32_t i = 0; i < rt->model.n_buffers; i++)
        rt->activations[i] = (struct activation){.taken = ZERO__NOWHERE};
}

void zero__activations_use(struct zero_runtime *rt, const struct zero__op *op)
{
    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++) {
        const struct zero__access *x = &rt->body->accesses[a];
        if (x->role != ZERO__R_PRODUCED && x->role != ZERO__R_CONSUMED)
            continue;
        const struct zero__buffer *f = zero__buffer_of(&rt->states, rt->body, x->buffer);
        rt->activations[f->declared].now = zero__address(rt, rt->body, x->buffer, 0);
        rt->activations[f->declared].consumed = x->role == ZERO__R_CONSUMED;
    }
}

void zero__activations_end(struct zero_runtime *rt)
{
    for (uint32_t i = 0; i < rt->model.n_buffers; i++)
        rt->activations[i].now = NULL;
}

/* ---- Out of order ---------------------------------------------------------------------------- */

/* Between its place on the device and where it is kept. The application has ended what it did. */
static int move(struct zero_runtime *rt, uint32_t i, int out)
{
    const struct zero__buffer *away = zero__buffer_of(&rt->states, rt->body, rt->body->away[i]);
    struct activation *a = &rt->activations[i];

    if (away->tier == ZERO__T_DISK)
        return zero__storage_move(rt, away->offset, a->bytes, out ? NULL : a->now,
                                  out ? a->now : NULL);
    struct zero__body *b = zero__deviate_body(rt);
    int err = zero__emit_move(&rt->model, &rt->states, rt->body, i, a->taken, out, b);
    return err ? err : zero__deviate_run(rt, b);
}

/* Does its planned place on the device hold it until it is consumed? */
static int stays(const struct zero_runtime *rt, uint32_t i)
{
    const struct zero__body *b = rt->body;

    for (uint32_t k = 0; k < b->n_accesses && b->away[i] == ZERO_NONE; k++)
        if (b->accesses[k].role == ZERO__R_CONSUMED && b->accesses[k].buffer == b->declared[i])
            return 1;
    return 0;
}

int zero__activations_keeps(const struct zero_runtime *rt, uint32_t i)
{
    return rt->activations[i].bytes && stays(rt, i);
}

/* A step out of order knows the use that consumes it by its number alone. */
static int64_t uses_beyond(const struct zero_runtime *rt, uint32_t i)
{
    const struct zero_buffer_desc *d = &rt->model.buffers[i].desc;

    return zero__deviate_beyond(rt, d->to_unit, d->to_pass);
}

/* What does not leave the device, and was not saved before this step left the order, stays in the
 * pool until it is consumed: in the last of the uses that may do so. */
static int open_one(struct zero_runtime *rt, uint32_t i, int consumed)
{
    struct activation *a = &rt->activations[i];
    int err = 0;

    a->consumed = consumed;
    if (consumed && a->taken == ZERO__NOWHERE && rt->body->away[i] == ZERO_NONE) {
        /* Behind the last use its place is another's: then it is nowhere. */
        if (uses_beyond(rt, i) <= 0)
            a->now = zero__address(rt, rt->body, rt->body->declared[i], 0);
        return 0;
    }
    if (a->taken == ZERO__NOWHERE)
        err = zero__pool_take(rt, rt->model.buffers[i].desc.bytes, &a->taken);
    if (err)
        return zero__while(err, "activation %s", rt->model.buffers[i].name);
    a->now = rt->slabs[SLAB_TRANSIENTS].base + a->taken;
    return consumed && rt->body->away[i] != ZERO_NONE ? move(rt, i, 0) : 0;
}

int zero__activations_deviate(struct zero_runtime *rt, uint32_t unit, uint32_t pass)
{
    int err = 0;

    for (uint32_t i = 0; i < rt->model.n_buffers && !err; i++) {
        const struct zero_buffer_desc *d = &rt->model.buffers[i].desc;
        struct activation *a = &rt->activations[i];
        if (!rt->model.buffers[i].activation)
            continue;
        /* The program saw no use that consumes it, so the room is another's by now. */
        if (a->bytes && a->taken == ZERO__NOWHERE && rt->body->away[i] == ZERO_NONE &&
            !stays(rt, i))
            a->bytes = 0;
        int saved = a->bytes != 0;
        if (saved ? d->to_unit == unit && d->to_pass == pass
                  : d->from_unit == unit && d->from_pass == pass)
            err = open_one(rt, i, saved);
    }
    return err;
}

/* Is it in the pool for a use that follows? An evaluation keeps what one of its own consumes. */
static int is_kept(const struct zero_runtime *rt, uint32_t i)
{
    const struct activation *a = &rt->activations[i];

    return a->bytes && rt->body->away[i] == ZERO_NONE &&
           (rt->phase != PHASE_EVAL || stays(rt, i)) && (!a->consumed || uses_beyond(rt, i) < 0);
}

static void place_leave(struct zero_runtime *rt, struct activation *a)
{
    if (a->taken != ZERO__NOWHERE)
        zero__pool_drop(rt, a->taken);
    a->taken = ZERO__NOWHERE;
}

int zero__activations_deviate_end(struct zero_runtime *rt)
{
    int err = 0;

    for (uint32_t i = 0; i < rt->model.n_buffers; i++) {
        struct activation *a = &rt->activations[i];
        if (a->now && a->bytes && !a->consumed && rt->body->away[i] != ZERO_NONE && !err)
            err = move(rt, i, 1);
        if (!is_kept(rt, i))
            place_leave(rt, a);
        a->now = NULL;
    }
    return err;
}

void zero__activations_deviate_close(struct zero_runtime *rt)
{
    for (uint32_t i = 0; i < rt->model.n_buffers; i++)
        place_leave(rt, &rt->activations[i]);
}

/* ---- The application's calls ----------------------------------------------------------------- */

/* The activation, in the use that produces it (or consumes it), also after an error elsewhere. */
static int find(struct zero_runtime *rt, uint32_t activation, int consumed, const char *what,
                struct activation **out)
{
    const uint32_t step = IN(PHASE_MICRO) | IN(PHASE_EVAL);
    int err = step & IN(rt->phase) ? 0 : zero__runtime_phase(rt, step, what);

    if (err)
        return err;
    if (activation >= rt->model.n_buffers || !rt->model.buffers[activation].activation)
        return zero__fail(-EINVAL, "%s: %u is not an activation that was added", what, activation);
    const struct zero__declared *d = &rt->model.buffers[activation];
    uint32_t unit = consumed ? d->desc.to_unit : d->desc.from_unit;
    uint32_t pass = consumed ? d->desc.to_pass : d->desc.from_pass;
    struct activation *a = &rt->activations[activation];
    if (rt->held && a->now && a->consumed == consumed) {
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
                      rt->model.units[unit].name);
}

void *zero_activation(struct zero_runtime *rt, uint32_t activation)
{
    struct activation *a = NULL;
    int err = find(rt, activation, 0, "zero_activation()", &a);

    return err ? NULL : a->now;
}

int zero_activation_save(struct zero_runtime *rt, uint32_t activation, const void *from,
                         uint64_t bytes, void *stream)
{
    struct activation *a = NULL;
    int err = zero__runtime_error(rt);

    if (err || (err = find(rt, activation, 0, "zero_activation_save()", &a)))
        return err;
    const struct zero__declared *d = &rt->model.buffers[activation];
    if (a->bytes)
        return zero__fail(-EALREADY, "activation %s is saved already in this use", d->name);
    if (bytes == 0 || bytes > d->desc.bytes)
        return zero__fail(-EINVAL, "activation %s: %llu bytes to save, 1 to %llu are declared",
                          d->name, (unsigned long long)bytes, (unsigned long long)d->desc.bytes);
    if (from && from != a->now && stream)
        err = rt->dev_ops.copy(rt->dev, a->now, from, bytes, stream);
    else if (from && from != a->now)
        err = zero__device_copy(rt, a->now, from, bytes);
    if (!err) {
        a->bytes = bytes;
        return 0;
    }
    zero__while(err, "activation %s", d->name);
    if (err != -EINVAL) /* which refuses the arguments: nothing has begun */
        zero__runtime_fail(rt, rt->rank, err, "save", zero__error_text());
    return err;
}

int zero_activation_restore(struct zero_runtime *rt, uint32_t activation, void **p, uint64_t *bytes)
{
    struct activation *a = NULL;
    int err = find(rt, activation, 1, "zero_activation_restore()", &a);

    if (!err && !a->bytes)
        err = zero__fail(-ENODATA, "activation %s was not saved in this micro-step",
                         rt->model.buffers[activation].name);
    if (err)
        return err;
    *p = a->now;
    if (bytes)
        *bytes = a->bytes;
    return 0;
}
