/* SPDX-License-Identifier: Apache-2.0 */
/* Small calls of the public API that belong to no phase: who a rank is, sums, streams, abort. */
#include <errno.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "machine/clock.h"

int zero_rank(const struct zero_runtime *rt)
{
    return rt->rank;
}

int zero_ranks(const struct zero_runtime *rt)
{
    return rt->ranks;
}

const char *zero_option(const struct zero_runtime *rt, const char *name)
{
    return zero__option_find(rt->options, name);
}

const char *zero_option_source(const struct zero_runtime *rt, const char *name)
{
    return zero__option_source(rt->options, name);
}

float zero_loss_scale(const struct zero_runtime *rt)
{
    return rt->last_info.loss_scale;
}

int zero_set_lr(struct zero_runtime *rt, uint32_t group, float lr)
{
    if (group >= rt->model.n_groups)
        return zero__fail(-EINVAL, "group %u is not registered (%u are)", group,
                          rt->model.n_groups);
    if (!(lr >= 0 && lr <= 1e6f))
        return zero__fail(-EINVAL, "group %s: learning rate %g must lie in [0, 1e6]",
                          rt->model.groups[group].name, (double)lr);
    if (zero__step_updates(rt))
        return zero__fail(-EBUSY,
                          "the update of this step runs beside its last micro-batch "
                          "(ZERO_UPDATE_AT=backward): call zero_set_lr() before that begins");
    rt->model.groups[group].hyper.lr = lr;
    return 0;
}

int zero_abort(struct zero_runtime *rt, const char *reason)
{
    zero__runtime_fail(rt, rt->rank, -ECANCELED, "abort", reason && *reason ? reason : "no reason");
    return 0;
}

int zero__sum(struct zero_runtime *rt, const char *call, double *values, uint32_t n)
{
    double *all = rt->sum_parts;
    int err = zero__runtime_error(rt);

    if (err)
        return err;
    if (n > ZERO__SUM_MOST)
        return zero__fail(-EINVAL, "zero_sum() takes at most %u numbers, not %u", ZERO__SUM_MOST,
                          n);
    rt->flight.control = call;
    rt->flight.control_ns = zero__now_ns();
    rt->flight.n_control++;
    err = zero__job_allgather(rt->job, values, n * (uint32_t)sizeof *all, all);
    if (err) /* the job's, of which this call may have heard first */
        return zero__runtime_fail(rt, -1, err, "", zero__error_text());
    rt->flight.control = NULL;
    for (uint32_t i = 0; i < n; i++) {
        values[i] = all[i];
        for (int r = 1; r < rt->ranks; r++)
            values[i] += all[(size_t)r * n + i];
    }
    return 0;
}

int zero_sum(struct zero_runtime *rt, double *values, uint32_t n)
{
    return zero__sum(rt, "zero_sum()", values, n);
}

int zero_barrier(struct zero_runtime *rt)
{
    double none = 0;
    return zero__sum(rt, "zero_barrier()", &none, 1);
}

int zero_stream_create(struct zero_runtime *rt, void **stream)
{
    return rt->dev_ops.stream_create(rt->dev, "application", stream);
}

static int stream_check(const void *stream, const char *what)
{
    return stream ? 0 : zero__fail(-EINVAL, "%s: the stream is NULL", what);
}

int zero_stream_destroy(struct zero_runtime *rt, void *stream)
{
    int err = stream_check(stream, "zero_stream_destroy()");
    return err ? err : rt->dev_ops.stream_destroy(rt->dev, stream);
}

int zero_stream_call(struct zero_runtime *rt, void *stream, void (*fn)(void *), void *arg)
{
    int err = stream_check(stream, "zero_stream_call()");
    return err ? err : rt->dev_ops.call(rt->dev, fn, arg, stream);
}

int zero_stream_sync(struct zero_runtime *rt, void *stream)
{
    int err = stream_check(stream, "zero_stream_sync()");
    return err ? err : rt->dev_ops.stream_sync(rt->dev, stream, rt->timeout_ns);
}
