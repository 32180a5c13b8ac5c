/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of a step out of order: the transients' slab serves as a pool of pages, first fit, in
 * which declared buffers that live when it begins keep their planned places; the host's memory
 * around the activations that it keeps is laid out anew for each body.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "step/state.h"

int zero__pool_keep(struct zero__step *step, uint64_t at, uint64_t bytes)
{
    struct zero__deviation *d = &step->deviation;
    uint32_t i;

    if (!bytes) /* whoever drops what begins at the same place must not find this */
        return 0;
    if (zero__grow(&d->used, &d->capacity, d->n_used, sizeof *d->used))
        return zero__fail(-ENOMEM, "no memory for the pool of a step out of order");
    for (i = d->n_used; i > 0 && d->used[i - 1].first > at; i--)
        d->used[i] = d->used[i - 1];
    d->used[i] = (struct extent){at, at + bytes};
    d->n_used++;
    return 0;
}

int zero__pool_is_free(const struct zero__step *step, uint64_t at, uint64_t bytes)
{
    const struct zero__deviation *d = &step->deviation;

    for (uint32_t i = 0; i < d->n_used; i++)
        if (at < d->used[i].last && d->used[i].first < at + bytes)
            return 0;
    return 1;
}

void zero__pool_drop(struct zero__step *step, uint64_t at)
{
    struct zero__deviation *d = &step->deviation;

    for (uint32_t i = 0; i < d->n_used; i++) {
        if (d->used[i].first != at)
            continue;
        memmove(&d->used[i], &d->used[i + 1], (--d->n_used - i) * sizeof *d->used);
        return;
    }
}

void zero__pool_empty(struct zero__step *step)
{
    step->deviation.n_used = 0;
}

void zero__pool_free(struct zero__step *step)
{
    free(step->deviation.used);
    step->deviation.used = NULL;
    step->deviation.n_used = step->deviation.capacity = 0;
}

/* First fit. */
int zero__pool_take(struct zero__step *step, uint64_t bytes, uint64_t *at)
{
    struct zero__deviation *d = &step->deviation;
    uint64_t end = 0, all = 0;

    bytes = zero__whole_pages(bytes);
    for (uint32_t i = 0; i <= d->n_used; i++) {
        uint64_t next =
            i < d->n_used ? d->used[i].first : step->site->slabs[ZERO__SLAB_TRANSIENTS].bytes;
        if (next >= end && next - end >= bytes) {
            *at = end;
            return zero__pool_keep(step, end, bytes);
        }
        if (i < d->n_used && d->used[i].last > end)
            end = zero__whole_pages(d->used[i].last);
        all += i < d->n_used ? d->used[i].last - d->used[i].first : 0;
    }
    return zero__fail(-ENOMEM,
                      "this step leaves the declared order and needs %llu bytes more than the %llu "
                      "of the plan hold beside %llu in use: declare the order with "
                      "zero_set_order() before the step",
                      (unsigned long long)bytes,
                      (unsigned long long)step->site->slabs[ZERO__SLAB_TRANSIENTS].bytes,
                      (unsigned long long)all);
}

/* ---- Places of a body's buffers -------------------------------------------------------------- */

/* Parameters and gradients have their places until they are used up, others for a body. */
static int is_kept(const struct zero__buffer *f)
{
    return f->memory_class == ZERO_CLASS_GATHERED || f->memory_class == ZERO_CLASS_BUCKETS;
}

static int live_at_once(const struct zero__buffer *a, const struct zero__buffer *b)
{
    /* What no marker ends, lives to the end of the body. */
    uint32_t a_end = a->last > a->first ? a->last : UINT32_MAX;
    uint32_t b_end = b->last > b->first ? b->last : UINT32_MAX;

    return a->first < b_end && b->first < a_end;
}

static int overlaps(const struct zero__buffer *a, const struct zero__buffer *b)
{
    return a->offset < b->offset + zero__whole_pages(b->bytes) &&
           b->offset < a->offset + zero__whole_pages(a->bytes);
}

/* An activation that the host's memory keeps for a use that follows; NULL: not this one. */
static const struct zero__buffer *kept_by_host(const struct zero__step *step, uint32_t i)
{
    if (step->phase == ZERO__PHASE_IDLE || step->now.body->away[i] == ZERO_NONE ||
        !step->activations[i].bytes)
        return NULL;
    const struct zero__buffer *f =
        zero__buffer_of(&step->site->states, step->now.body, step->now.body->away[i]);
    return f->tier == ZERO__T_CPU ? f : NULL;
}

/* What lies where a body's buffer is to be: an activation, or one that the body lists before. */
static const struct zero__buffer *in_the_way(const struct zero__step *step,
                                             const struct zero__body *b, uint32_t index)
{
    const struct zero__buffer *f = &b->buffers[index];

    for (uint32_t i = 0; i < step->site->model.n_buffers; i++) {
        const struct zero__buffer *o = kept_by_host(step, i);
        if (o && overlaps(o, f))
            return o;
    }
    for (uint32_t i = 0; i < index; i++) {
        const struct zero__buffer *o = &b->buffers[i];
        if (o->tier == ZERO__T_CPU && live_at_once(o, f) && overlaps(o, f))
            return o;
    }
    return NULL;
}

/*
 * In the host's memory nothing of a body outlives it, but activations: the lowest place that
 * nothing else has meanwhile.
 */
static int host_place(struct zero__step *step, struct zero__body *b, uint32_t index)
{
    uint64_t room = step->site->slabs[zero__slab(ZERO__T_CPU, 1)].bytes;
    struct zero__buffer *f = &b->buffers[index];
    const struct zero__buffer *o;

    f->offset = 0;
    while ((o = in_the_way(step, b, index)))
        f->offset = o->offset + zero__whole_pages(o->bytes);
    return f->offset + zero__whole_pages(f->bytes) <= room
               ? 0
               : zero__fail(-ENOMEM,
                            "this step leaves the declared order and needs %llu bytes of the "
                            "host's memory, of which the plan has %llu: declare the order with "
                            "zero_set_order() before the step",
                            (unsigned long long)(f->offset + zero__whole_pages(f->bytes)),
                            (unsigned long long)room);
}

int zero__pool_place(struct zero__step *step, struct zero__body *b, uint64_t *at)
{
    int err = 0;

    for (uint32_t i = 0; i < b->n_buffers && !err; i++) {
        struct zero__buffer *f = &b->buffers[i];
        if (f->tier == ZERO__T_CPU) {
            err = host_place(step, b, i);
        } else if (!is_kept(f)) {
            err = zero__pool_take(step, f->bytes, &f->offset);
        } else {
            uint64_t *place = &at[f->segment];
            if (*place == ZERO__NOWHERE)
                err = zero__pool_take(step, f->bytes, place);
            f->offset = *place;
        }
    }
    return err;
}

void zero__pool_return(struct zero__step *step, const struct zero__body *b)
{
    for (uint32_t i = 0; i < b->n_buffers; i++)
        if (b->buffers[i].tier == ZERO__T_DEVICE && !is_kept(&b->buffers[i]))
            zero__pool_drop(step, b->buffers[i].offset);
}

void zero__pool_leave(struct zero__step *step, uint32_t unit, uint64_t *at)
{
    FOR_SEGMENTS (&step->site->model, unit, i) {
        if (at[i] != ZERO__NOWHERE)
            zero__pool_drop(step, at[i]);
        at[i] = ZERO__NOWHERE;
    }
}
