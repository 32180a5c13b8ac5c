/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls that belong to no phase: ranks, options, sums, streams, reports of times. */
#include <errno.h>

#include "base/status.h"
#include "engine/runtime.h"

int zero_rank(const struct zero_runtime *rt)
{
    return rt->site.rank;
}

int zero_ranks(const struct zero_runtime *rt)
{
    return rt->site.ranks;
}

const char *zero_option(const struct zero_runtime *rt, const char *name)
{
    return zero__option_find(rt->site.options, name);
}

const char *zero_option_source(const struct zero_runtime *rt, const char *name)
{
    return zero__option_source(rt->site.options, name);
}

float zero_loss_scale(const struct zero_runtime *rt)
{
    return zero__step_loss_scale(rt->step);
}

int zero_set_lr(struct zero_runtime *rt, uint32_t group, float lr)
{
    if (group >= rt->site.model.n_groups)
        return zero__fail(-EINVAL, "group %u is not registered (%u are)", group,
                          rt->site.model.n_groups);
    if (!(lr >= 0 && lr <= 1e6f))
        return zero__fail(-EINVAL, "group %s: learning rate %g must lie in [0, 1e6]",
                          rt->site.model.groups[group].name, (double)lr);
    if (zero__step_updates(rt->step))
        return zero__fail(-EBUSY,
                          "the update of this step runs beside its last micro-batch "
                          "(ZERO_UPDATE_AT=backward): call zero_set_lr() before that begins");
    rt->site.model.groups[group].hyper.lr = lr;
    return 0;
}

int zero_status(const struct zero_runtime *rt)
{
    return zero__run_status(rt->run);
}

int zero_abort(struct zero_runtime *rt, const char *reason)
{
    zero__run_fail(rt->run, rt->site.rank, -ECANCELED, "abort",
                   reason && *reason ? reason : "no reason");
    return 0;
}

int zero_sum(struct zero_runtime *rt, double *values, uint32_t n)
{
    return zero__sum(rt->run, "zero_sum()", values, n);
}

int zero_barrier(struct zero_runtime *rt)
{
    double none = 0;
    return zero__sum(rt->run, "zero_barrier()", &none, 1);
}

int zero_stream_create(struct zero_runtime *rt, void **stream)
{
    return rt->site.dev_ops.stream_create(rt->site.dev, "application", stream);
}

static int stream_check(const void *stream, const char *what)
{
    return stream ? 0 : zero__fail(-EINVAL, "%s: the stream is NULL", what);
}

int zero_stream_destroy(struct zero_runtime *rt, void *stream)
{
    int err = stream_check(stream, "zero_stream_destroy()");
    return err ? err : rt->site.dev_ops.stream_destroy(rt->site.dev, stream);
}

int zero_stream_call(struct zero_runtime *rt, void *stream, void (*fn)(void *), void *arg)
{
    int err = stream_check(stream, "zero_stream_call()");
    return err ? err : rt->site.dev_ops.call(rt->site.dev, fn, arg, stream);
}

int zero_stream_sync(struct zero_runtime *rt, void *stream)
{
    int err = stream_check(stream, "zero_stream_sync()");
    return err ? err : rt->site.dev_ops.stream_sync(rt->site.dev, stream, rt->site.timeout_ns);
}

const char *zero_placement(const struct zero_runtime *rt)
{
    return zero__placement(rt->placer);
}

int zero_forecast(struct zero_runtime *rt, struct zero_forecast *forecast)
{
    int err = zero__step_phase(rt->step, ~(uint32_t)ZERO__IN(SETUP), "zero_forecast()");
    return err ? err : zero__forecast(rt->placer, forecast);
}

int zero_op_times(struct zero_runtime *rt, void (*fn)(void *, const struct zero_op_time *),
                  void *arg)
{
    int err = zero__step_phase(rt->step, ~(uint32_t)ZERO__IN(SETUP), "zero_op_times()");
    struct zero_op_time op;

    while (!err && zero__times_take(rt->run, &op))
        fn(arg, &op);
    return err;
}
