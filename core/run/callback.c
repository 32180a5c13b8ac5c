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

#include "base/elements.h"
#include "base/status.h"
#include "run/callback.h"
#include "run/runner.h"

#define PIECE 65536u /* elements of the gradient converted at a time */

/* What one launch works on: the stream runs later. */
struct job {
    struct zero__runner *run;
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

int zero__callback_create(struct zero__runner *run)
{
    if (run->site->optimizer != ZERO__CALLBACK)
        return 0;
    if (!run->site->callback)
        return zero__fail(-EINVAL, "ZERO_OPTIMIZER is callback, but the program has set none "
                                   "with zero_set_optimizer(): choose adamw, adam or sgd");
    if (!zero__device_is_host(run->site))
        return zero__fail(-ENOTSUP,
                          "ZERO_OPTIMIZER is callback, which works on memory of the host, and that "
                          "of device %s is its own: choose adamw, adam or sgd",
                          run->site->device_name);
    if (run->site->recipe.state_dtype == ZERO_BF16)
        return zero__fail(-EINVAL, "ZERO_STATE_DTYPE is bf16, and an optimizer by callback has its "
                                   "states in fp32: leave it out");
    struct zero__callbacks *c = calloc(1, sizeof *c);
    run->callbacks = c;
    if (c) {
        c->n_jobs = (uint64_t)ZERO__LAUNCHED_MOST * segments_most(&run->site->model);
        c->jobs = calloc(c->n_jobs, sizeof *c->jobs);
        c->scratch = malloc(PIECE * sizeof *c->scratch);
    }
    return c && c->jobs && c->scratch ? 0 : zero__fail(-ENOMEM, "no memory for the optimizer");
}

void zero__callback_free(struct zero__runner *run)
{
    if (run->callbacks) {
        free(run->callbacks->jobs);
        free(run->callbacks->scratch);
    }
    free(run->callbacks);
    run->callbacks = NULL;
}

/* Elements first … end of the segment, all of one parameter. */
static int part_update(struct zero__runner *run, const struct zero__operands *o, uint32_t param,
                       uint64_t first, uint64_t end, const struct zero_scalars *step)
{
    const struct zero__param *p = &run->site->model.params[param];
    uint32_t dtype = run->site->model.segments[o->segment].dtype;
    uint32_t size = zero_dtype_bytes(dtype), gsize = zero_dtype_bytes(o->grad_dtype);
    float *m = (float *)(void *)o->m, *v = (float *)(void *)o->v;
    float *grad = run->callbacks->scratch;

    for (uint64_t at = first; at < end; at += PIECE) {
        uint64_t n = end - at < PIECE ? end - at : PIECE, k = at - o->first;
        zero__elements_unpack(grad, o->grad + k * gsize, o->grad_dtype, n);
        for (uint64_t i = 0; i < n; i++)
            grad[i] *= step->factor;
        int err = run->site->callback(run->site->callback_arg, param, at - p->offset, n, step->step,
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
    struct zero__runner *run = j->run;
    const struct zero__operands *o = &j->o;
    const struct zero__segment *s = &run->site->model.segments[o->segment];
    const struct zero_scalars *step =
        (const void *)zero__home_address(run->site, run->site->states.scalars, 0);

    for (uint32_t i = 0; i < s->n_params && !step->skip; i++) {
        uint32_t id = run->site->model.by_segment[s->first_param + i];
        const struct zero__param *p = &run->site->model.params[id];
        uint64_t first = p->offset > o->first ? p->offset : o->first;
        uint64_t end = p->offset + p->count;
        end = end < o->first + o->count ? end : o->first + o->count;
        int err = first < end ? part_update(run, o, id, first, end, step) : 0;
        if (err) {
            zero__run_fail(run, run->site->rank, err, "", zero__error_text());
            return;
        }
    }
}

int zero__callback_launch(struct zero__runner *run, uint32_t queue, const struct zero__operands *o)
{
    struct zero__callbacks *c = run->callbacks;
    struct job *j = &c->jobs[c->next++ % c->n_jobs];

    *j = (struct job){run, *o};
    return run->site->dev_ops.call(run->site->dev, job_run, j, run->lanes[queue].stream);
}
