/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a step takes: the program is run on paper (schedule/simulate.h), with the times that its
 * ops took in the last step, and for what it moves to and from the disk with the speeds measured
 * before the first step (speeds.c). Before the first step its ops share what a job of this kind has
 * computed (past.c), by what they work on.
 */
#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "place/placer.h"

/* Bytes both ways share the disk as they did when it was measured so. */
static double disk_s(const struct zero__speeds *s, const struct zero__disk_bytes *m)
{
    double read = (double)m->read, written = (double)m->written;
    double both = read < written ? read : written;

    if (s->read <= 0)
        return 0;
    return 2 * both / s->both + (read - both) / s->read + (written - both) / s->write;
}

static uint64_t moves(const struct zero__disk_bytes *m)
{
    return m->read + m->written;
}

/* The disk's of this job, or, where they are not measured, of the last one of its kind. */
static struct zero__speeds speeds_known(const struct zero__placer *placer)
{
    return placer->speeds.read > 0 ? placer->speeds : placer->past.speeds;
}

/* ---- Before the first step ------------------------------------------------------------------- */

enum sum { COMPUTING, UPDATING, COPYING, NO_SUM };

static uint64_t bytes_of(const struct zero__body *b, const struct zero__op *op)
{
    uint64_t bytes = 0;

    for (uint32_t a = op->first_access; a < op->first_access + op->n_accesses; a++)
        bytes += b->accesses[a].bytes;
    return bytes;
}

/* What an op's part of a sum of times goes by; *of: which sum. */
static double weight_of(const struct zero__model *m, const struct zero__body *b, uint32_t body,
                        const struct zero__op *op, enum sum *of)
{
    uint64_t elements = 0;

    *of = NO_SUM;
    if (op->kind == ZERO__COMPUTE && body != ZERO__EVALUATION) { /* two products for one */
        FOR_SEGMENTS (m, op->unit, i)
            elements += m->segments[i].padded;
        *of = COMPUTING;
        return (double)elements * (op->pass == ZERO_BACKWARD ? 2 : 1);
    }
    if (op->kind == ZERO__COPY || op->kind == ZERO__SAVE || op->kind == ZERO__RESTORE) {
        *of = COPYING;
        return (double)bytes_of(b, op) / 2; /* of the source and the destination */
    }
    if (zero__queue_is_stream(op->queue) &&
        (body == ZERO__UPDATE_BODY || op->flags & ZERO__OP_TILE)) {
        *of = UPDATING;
        return (double)bytes_of(b, op);
    }
    return 0;
}

int zero__costs_guess(const struct zero__placer *placer, const struct zero__recipe *r,
                      const struct zero__program *p, struct zero__costs *c)
{
    double sums[NO_SUM] = {0};
    const double seconds[NO_SUM] = {placer->past.compute_s, placer->past.update_s, 0};
    enum sum of;
    int err = zero__costs_make(p, NULL, c);

    if (err)
        return err;
    for (int fills = 0; fills < 2; fills++)
        for (uint32_t k = 0; k < ZERO__EVALUATION; k++)
            for (uint32_t i = 0; i < p->bodies[k].n_ops; i++) {
                const struct zero__body *b = &p->bodies[k];
                double weight = weight_of(&placer->site->model, b, k, &b->ops[i], &of);
                if (of == NO_SUM || weight <= 0)
                    continue;
                if (!fills)
                    sums[of] += weight * (k == ZERO__MICRO ? r->accum - 1 : 1);
                else if (of != COPYING)
                    c->op_s[k][i] = seconds[of] * weight / sums[of];
                else if (placer->copies > 0)
                    c->op_s[k][i] = weight / placer->copies;
            }
    c->speeds = speeds_known(placer);
    return 0;
}

/* ---- What the application hears -------------------------------------------------------------- */

static int costs_of_last_step(struct zero__placer *placer, struct zero__costs *c)
{
    int err = zero__costs_make(placer->site->programs[0], NULL, c);

    if (err)
        return err;
    zero__times_costs(placer->run, c);
    c->speeds = speeds_known(placer);
    return 0;
}

/* As it was in the last step, or, before the first one, may be. */
static int foretell(struct zero__placer *placer, struct zero_forecast *f)
{
    struct zero__simulated s;
    struct zero__costs c;
    int err = zero__times_last(placer->run).compute_ns
                  ? costs_of_last_step(placer, &c)
                  : zero__costs_guess(placer, &placer->site->recipe, placer->site->programs[0], &c);

    if (err)
        return err;
    err = zero__simulate(placer->site->programs[0], &placer->site->recipe, &c, &s);
    zero__costs_free(&c);
    if (!err)
        f->step_s = s.step_s, f->passes_s = s.passes_s;
    return err;
}

int zero__forecast(struct zero__placer *placer, struct zero_forecast *forecast)
{
    const struct zero__work w = zero__times_last(placer->run);
    const struct zero__speeds speeds = speeds_known(placer);
    struct zero_forecast f = {0};
    struct zero__traffic t;
    int err = 0;

    if (!forecast->size)
        return zero__fail(-EINVAL, "zero_forecast.size is 0: set it to sizeof *forecast");
    f.size = zero__least(forecast->size, sizeof f);
    if (!w.compute_ns && placer->past.compute_s <= 0)
        return zero__fail(-EAGAIN,
                          "zero_forecast() works after the first step of %u "
                          "micro-batches (ZERO_ACCUM) in the declared order, or after a "
                          "job of the same model",
                          placer->site->recipe.accum);
    f.compute_s = w.compute_ns ? (double)w.compute_ns / 1e9 : placer->past.compute_s;
    f.update_s = w.compute_ns ? (double)w.update_ns / 1e9 : placer->past.update_s;
    zero__program_traffic(placer->site->programs[0], &placer->site->recipe, &t);
    if (speeds.read <= 0 && moves(&t.passes) + moves(&t.update))
        err = zero__fail(-EAGAIN, "zero_forecast() goes by the speed of %s, which is not known: %s",
                         placer->site->tiers[ZERO__T_DISK].name,
                         zero__option_int(placer->site->options, ZERO__OPT_OFFLOAD_MEASURE)
                             ? "too little lies there for it to be measured"
                             : "ZERO_OFFLOAD_MEASURE is 0, and no job has measured it before");
    if (!err)
        err = foretell(placer, &f);
    if (err)
        return err;
    f.compute_disk_s = disk_s(&speeds, &t.passes);
    f.update_disk_s = disk_s(&speeds, &t.update);
    f.disk_read_rate = speeds.read;
    f.disk_write_rate = speeds.write;
    memcpy(forecast, &f, f.size);
    return 0;
}
