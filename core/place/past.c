/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the last job of this kind has computed in a step (base/kept.h), which this one will, too: so
 * it is known before the first step what of the disk's work is hidden behind computing.
 *
 * A kind of job: the model with its activations, and whatever makes a rank compute more or less.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/kept.h"
#include "base/status.h"
#include "place/placer.h"
#include "place/speeds.h"

#define N_FIGURES 5

static uint64_t add(uint64_t kind, uint64_t x)
{
    return XXH3_64bits_withSeed(&x, sizeof x, kind);
}

/* Unit by unit: a model of as many elements in other units computes and moves otherwise. */
static uint64_t model_kind(const struct zero__model *m, uint64_t kind)
{
    for (uint32_t i = 0; i < m->n_segments; i++) {
        const struct zero__segment *s = &m->segments[i];
        kind = add(add(add(kind, s->unit), s->dtype), s->trainable << 1 | s->persistent);
        kind = add(kind, s->padded);
    }
    for (uint32_t i = 0; i < m->n_buffers; i++)
        kind = add(kind, m->buffers[i].desc.bytes);
    for (uint32_t i = 0; i < m->orders[ZERO_TRAIN].n; i++)
        kind =
            add(add(kind, m->orders[ZERO_TRAIN].uses[i].unit), m->orders[ZERO_TRAIN].uses[i].pass);
    return kind;
}

/* Options that change what is computed, or how fast; none of them says where states lie. */
static uint64_t job_kind(const struct zero__placer *placer)
{
    static const uint32_t numbers[] = {
        ZERO__OPT_THREADS,  ZERO__OPT_ISA,       ZERO__OPT_OPTIMIZER, ZERO__OPT_MAP,
        ZERO__OPT_NUMERICS, ZERO__OPT_UPDATE_AT, ZERO__OPT_REDUCE_AT, ZERO__OPT_STATE_DTYPE};
    const struct zero__recipe *r = &placer->site->recipe;

    uint64_t kind =
        zero__kept_key("%s %s %u %u %d %u %u %u %u %" PRIu64 " %" PRIu64, placer->site->device_name,
                       placer->site->comm_name, r->stage, r->ranks, placer->site->local_ranks,
                       r->accum, placer->site->model.train_dtype, placer->site->model.n_units,
                       placer->site->model.n_params, r->bucket_bytes, r->prefetch_bytes);
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        kind = add(kind, (uint64_t)zero__option_int(placer->site->options, numbers[i]));
    return model_kind(&placer->site->model, kind);
}

/* Something may lie on the disk or not. */
static int is_open(const struct zero__placer *placer)
{
    int any = 0;

    for (uint32_t w = 0; w < ZERO__N_PLACED; w++)
        any |= placer->spread[w] >> ZERO__T_DISK & 1;
    return any && placer->site->tiers[ZERO__T_DISK].name;
}

/* Seconds and bytes a second that some machine may have had: anybody can write the file. */
static int is_past(const struct zero__past *p)
{
    const double seconds[] = {p->compute_s, p->update_s};
    int good = zero__are_speeds(&p->speeds);

    for (int i = 0; i < 2; i++)
        good &= isfinite(seconds[i]) && seconds[i] >= 1e-9 && seconds[i] < 1e7;
    return good;
}

int zero__past_find(struct zero__placer *placer)
{
    double own[N_FIGURES] = {0}, (*all)[N_FIGURES];
    int err;

    if (!is_open(placer)) /* on all ranks alike: options, and what they have agreed on */
        return 0;
    zero__kept_find("steps", job_kind(placer), own, N_FIGURES);
    all = zero__ranks_ask(placer->site, own, sizeof own, &err);
    if (!err) { /* rank 0's, so that all decide alike */
        const double *x = all[0];
        placer->past =
            (struct zero__past){.compute_s = x[0], .update_s = x[1], .speeds = {x[2], x[3], x[4]}};
        if (!is_past(&placer->past))
            placer->past = (struct zero__past){.compute_s = 0};
    }
    free(all);
    return err;
}

void zero__past_note(const struct zero__placer *placer)
{
    const struct zero__work w = zero__times_last(placer->run);
    const double x[N_FIGURES] = {(double)w.compute_ns / 1e9, (double)w.update_ns / 1e9,
                                 placer->speeds.read, placer->speeds.write, placer->speeds.both};
    int err = 0;

    if (is_open(placer) && placer->site->rank == 0 && w.compute_ns && w.update_ns &&
        placer->speeds.read > 0)
        err = zero__kept_note("steps", job_kind(placer), x, N_FIGURES);
    if (err)
        zero__log(&placer->site->log, ZERO_LOG_DEBUG, "engine",
                  "what a step took cannot be kept: %s", strerror(-err));
}
