/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a step takes: the longer one of what it computes and what it moves to and from the disk,
 * for the micro-batches and for the update apart. An update beside the last backward pass begins
 * with that, shares the disk with what the passes need, and ends with the units whose gradients are
 * reduced last. What is computed is known from the last step, what is moved from the program, and
 * how fast from before the first step (speeds.c).
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "engine/runtime.h"

/* Bytes both ways share the disk as they did when it was measured so. */
double zero__disk_s(const struct speeds *s, double read, double written)
{
    double both = fmin(read, written);

    if (s->read <= 0)
        return 0;
    return 2 * both / s->both + (read - both) / s->read + (written - both) / s->write;
}

static double disk_s(const struct speeds *s, const struct moved *m)
{
    return zero__disk_s(s, (double)m->read_bytes, (double)m->written_bytes);
}

static double step_s(const struct zero_runtime *rt, const struct zero_forecast *f)
{
    const struct work *w = &rt->timed_work;
    double passes = fmax(f->compute_s, f->compute_disk_s), beside, tail;

    if (!rt->recipe.early)
        return passes + fmax(f->update_s, f->update_disk_s);
    passes = fmax(passes, f->compute_disk_s + f->update_disk_s);
    beside = f->compute_s - (double)w->backward_ns / 1e9 + fmax(f->update_s, f->update_disk_s);
    tail = f->compute_s + disk_s(&rt->speeds, &w->in_tail);
    return fmax(passes, fmax(beside, tail));
}

int zero_forecast(struct zero_runtime *rt, struct zero_forecast *forecast)
{
    const struct work *w = &rt->timed_work;
    struct zero_forecast f = {.size = forecast->size};
    int err = zero__runtime_phase(rt, ~(uint32_t)IN(PHASE_SETUP), "zero_forecast()");

    if (err)
        return err;
    if (!forecast->size)
        return zero__fail(-EINVAL, "zero_forecast.size is 0: set it to sizeof *forecast");
    if (!w->compute_ns && rt->past.compute_s <= 0)
        return zero__fail(-EAGAIN, "zero_forecast() works after the first step in the declared "
                                   "order, or after a job of the same model");
    if (w->compute_ns) {
        f.compute_s = (double)w->compute_ns / 1e9;
        f.update_s = (double)w->update_ns / 1e9;
        f.compute_disk_s = disk_s(&rt->speeds, &w->in_micro);
        f.update_disk_s = disk_s(&rt->speeds, &w->in_update);
        f.step_s = step_s(rt, &f);
    } else {
        zero__past_forecast(rt, &rt->speeds, &rt->past.traffic, &f);
    }
    f.disk_read_rate = rt->speeds.read;
    f.disk_write_rate = rt->speeds.write;
    memcpy(forecast, &f, forecast->size < sizeof f ? forecast->size : sizeof f);
    return 0;
}
