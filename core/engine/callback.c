/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application's own optimizer: called on the device's stream for every parameter's part that
 * this rank owns, with fp32 gradients that are averaged, unscaled and clipped; then the 16-bit
 * parameters are made from the master copy.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/callback.h"
#include "engine/elements.h"
#include "engine/runtime.h"

#define PIECE 65536u /* elements of the gradient converted at a time */

/* What one launch works on: the stream runs later. */
struct job {
    struct zero_runtime *rt;
    struct zero__operands o;
};

/*
 * A ring. An op is launched when fewer than ZERO__LAUNCHED_MOST before it are not done, so that a
 * place is free again when as many ops with as many segments as any has have gone by.
 */
struct zero__callbacks {
    struct job *jobs;
    uint64_t n_jobs, next;
    float *scratch;
};

static uint32_t segments_most(const struct zero__model *m)
{
    uint32_t most = 1;

    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->units[u].n_segments > most)
            most = m->units[u].n_segments;
    return most;
}

int zero__callback_create(struct zero_runtime *rt)
{
    if (rt->optimizer != ZERO__CALLBACK)
        return 0;
    if (!rt->callback)
        return zero__fail(-EINVAL, "ZERO_OPTIMIZER is callback, but the program has set none "
                          "with zero_set_optimizer(): choose adamw, adam or sgd");
    if (!zero__device_is_host(rt))
        return zero__fail(-ENOTSUP,
                          "ZERO_OPTIMIZER is callback, which works on memory of the host, and that "
                          "of device %s is its own: choose adamw, adam or sgd",
                          rt->device_name);
    if (rt->recipe.state_dtype == ZERO_BF16)
        return zero__fail(-EINVAL, "ZERO_STATE_DTYPE is bf16, and an optimizer by callback has its "
                          "states in fp32: leave it out");
    struct zero__callbacks *c = calloc(1, sizeof *c);
    rt->callbacks = c;
    if (c) {
        c->n_jobs = (uint64_t)ZERO__LAUNCHED_MOST * segments_most(&rt->model);
        c->jobs = calloc(c->n_jobs, sizeof *c->jobs);
        c->scratch = malloc(PIECE * sizeof *c->scratch);
    }
    return c && c->jobs && c->scratch ? 0 : zero__fail(-ENOMEM, "no memory for the optimizer");
}

void zero__callback_free(struct zero_runtime *rt)
{
    if (rt->callbacks) {
        free(rt->callbacks->jobs);
        free(rt->callbacks->scratch);
    }
    free(rt->callbacks);
    rt->callbacks = NULL;
}

/* Elements first … end of the segment, all of one parameter. */
static int part_update(struct zero_runtime *rt, const struct zero__operands *o, uint32_t param,
                       uint64_t first, uint64_t end, const struct zero_scalars *step)
{
    const struct zero__param *p = &rt->model.params[param];
    uint32_t dtype = rt->model.segments[o->segment].dtype;
    uint32_t size = zero_dtype_bytes(dtype), gsize = zero_dtype_bytes(o->grad_dtype);
    float *m = (float *)(void *)o->m, *v = (float *)(void *)o->v;
    float *grad = rt->callbacks->scratch;

    for (uint64_t at = first; at < end; at += PIECE) {
        uint64_t n = end - at < PIECE ? end - at : PIECE, k = at - o->first;
        zero__elements_unpack(grad, o->grad + k * gsize, o->grad_dtype, n);
        for (uint64_t i = 0; i < n; i++)
            grad[i] *= step->factor;
        int err = rt->callback(rt->callback_arg, param, at - p->offset, n, step->step,
                               o->master + k, m + k, v + k, grad);
        if (err)
            return zero__fail(err < 0 ? err : -EINVAL,
                              "the optimizer callback returned %d for parameter %s, elements "
                              "%" PRIu64 " to %" PRIu64,
                              err, p->name, at - p->offset, at - p->offset + n - 1);
        if (dtype != ZERO_F32)
            zero__elements_pack(o->param + k * size, dtype, o->master + k, n);
    }
    return 0;
}

static void job_run(void *arg)
{
    struct job *j = arg;
    struct zero_runtime *rt = j->rt;
    const struct zero__operands *o = &j->o;
    const struct zero__segment *s = &rt->model.segments[o->segment];
    const struct zero_scalars *step = (const void *)zero__home_address(rt, rt->states.scalars, 0);

    for (uint32_t i = 0; i < s->n_params && !step->skip; i++) {
        uint32_t id = rt->model.by_segment[s->first_param + i];
        const struct zero__param *p = &rt->model.params[id];
        uint64_t first = p->offset > o->first ? p->offset : o->first;
        uint64_t end = p->offset + p->count;
        end = end < o->first + o->count ? end : o->first + o->count;
        int err = first < end ? part_update(rt, o, id, first, end, step) : 0;
        if (err) {
            zero__runtime_fail(rt, rt->rank, err, "", zero__error_text());
            return;
        }
    }
}

int zero__callback_launch(struct zero_runtime *rt, uint32_t queue, const struct zero__operands *o)
{
    struct zero__callbacks *c = rt->callbacks;
    struct job *j = &c->jobs[c->next++ % c->n_jobs];

    *j = (struct job){rt, *o};
    return rt->dev_ops.call(rt->dev, job_run, j, rt->lanes[queue].stream);
}

int zero_set_optimizer(struct zero_runtime *rt, zero_optimizer_fn fn, void *arg)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP), "zero_set_optimizer()");

    if (err)
        return err;
    rt->callback = fn;
    rt->callback_arg = arg;
    rt->optimizer = fn ? ZERO__CALLBACK : (uint32_t)zero__option_int(rt->options,
                                                                     ZERO__OPT_OPTIMIZER);
    return 0;
}
