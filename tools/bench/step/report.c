/* SPDX-License-Identifier: Apache-2.0 */
/* What zero bench step prints: a line for each part of a step, with its limit beside it. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "log.h"
#include "tools/bench/measure/record.h"
#include "tools/bench/measure/watch.h"
#include "tools/bench/optimizer/states.h"

#define LEAST_OF_STEP 0.05 /* the spread of less says nothing of a step */

struct row {
    const char *name;
    struct bench_stats time;
    double of_step;
    double beside;  /* part of it beside computing; < 0: does not apply */
    double limit_s; /* 0: there is none */
    const char *loop;
    bool no_percent;
    double bytes;   /* of the disk: what it moves */
};

static const char *check_text(const struct step_options *o, const struct step_log *log)
{
    return !o->check ? "off" : log->sound ? "ok" : "failed";
}

static void row_print(const struct step_options *o, const struct step_log *log,
                      const struct row *row, double tokens)
{
    const struct bench_field fields[] = {
        {"preset", 0, o->preset},
        {"stage", log->stage, NULL},
        {"batch", (double)log->batch, NULL},
        {"seq", (double)log->seq, NULL},
        {"parameters", (double)log->parameters, NULL},
        {"rank", log->rank, NULL},
        {"percent_of_step", 100 * row->of_step, NULL},
        {"percent_beside_computing", row->beside < 0 ? -1 : 100 * row->beside, NULL},
        {"tokens_per_s", tokens, NULL},
        {"limit_loop", -1, row->loop},
    };
    struct bench_record r = {.bench = "step",
                             .op = row->name,
                             .comm = log->comm,
                             .ranks = log->ranks,
                             .dtype = !strcmp(log->dtype, "fp32")   ? "f32"
                                      : !strcmp(log->dtype, "fp16") ? "f16"
                                                                    : log->dtype,
                             .time = row->time,
                             .bytes = (uint64_t)row->bytes,
                             .limit_s = row->limit_s,
                             .no_percent = row->no_percent,
                             .n = log->n_steps,
                             .check = check_text(o, log),
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof *fields};

    if (row->bytes > 0) {
        r.bandwidth_GBps = row->bytes / row->time.median * 1e-9;
        r.limit_GBps = row->limit_s > 0 ? row->bytes / row->limit_s * 1e-9 : 0;
    }
    if (o->json) {
        bench_record_json(&r);
        return;
    }
    printf("%-20s %12.3f %6.1f%% %8.1f%%", row->name, row->time.median * 1e3,
           row->time.spread * 100, 100 * row->of_step);
    if (row->limit_s > 0)
        printf(" %12.3f", row->limit_s * 1e3);
    else
        printf(" %12s", "-");
    if (bench_record_percent(&r) > 0)
        printf(" %8.1f%%", bench_record_percent(&r));
    else
        printf(" %9s", "-");
    if (row->beside >= 0)
        printf("  %.0f %% of it beside computing", 100 * row->beside);
    if (row->bytes > 0)
        printf(", %.1f MB, %.2f GB/s", row->bytes * 1e-6, r.bandwidth_GBps);
    putchar('\n');
}

/*
 * Beside all that: how long collectives were under way, of them the exchange of norms by itself,
 * and how long the disk had something to do, whose limit is what its bytes take when it has nothing
 * else to do.
 */
static void busy_print(const struct step_options *o, const struct step_log *log, double whole,
                       double *x)
{
    static const char *const names[] = {"collectives", "norm", "disk"};

    for (unsigned sort = 0; sort < N_STEP_SORTS; sort++) {
        struct row row = {.name = names[sort]};
        for (unsigned s = 0; s < log->n_steps; s++) {
            const struct step_figures *f = &log->steps[s];
            x[s] = f->busy[sort] > 0 ? f->beside[sort] / f->busy[sort] : 0;
        }
        row.beside = bench_stats_of(x, log->n_steps).median;
        for (unsigned s = 0; s < log->n_steps && sort == STEP_DISK; s++)
            x[s] = log->steps[s].disk_bytes;
        if (sort == STEP_DISK) {
            row.bytes = bench_stats_of(x, log->n_steps).median;
            row.limit_s = log->disk_limit_s;
        }
        for (unsigned s = 0; s < log->n_steps; s++)
            x[s] = log->steps[s].busy[sort];
        row.time = bench_stats_of(x, log->n_steps);
        row.of_step = row.time.median / whole;
        if (row.time.median > 0)
            row_print(o, log, &row, -1);
    }
}

/* The i-th figure of all steps: parts, then kinds of exposed waits, then tokens a second. */
static struct bench_stats figure(const struct step_log *log, unsigned i, double *x)
{
    for (unsigned s = 0; s < log->n_steps; s++) {
        const struct step_figures *f = &log->steps[s];
        x[s] = i < N_STEP_PARTS                ? f->parts[i]
               : i < N_STEP_PARTS + STEP_KINDS ? f->exposed[i - N_STEP_PARTS]
                                               : f->tokens_per_s;
    }
    return bench_stats_of(x, log->n_steps);
}

/* A step in which nothing was waited for. */
static double without_waits(const struct step_log *log, double *x)
{
    for (unsigned s = 0; s < log->n_steps; s++)
        x[s] = log->steps[s].parts[STEP_TIME] - log->steps[s].parts[STEP_EXPOSED];
    return bench_stats_of(x, log->n_steps).median;
}

/* What a part cannot be faster than; computing and waiting have no such time. */
static void limit_put(struct row *row, const struct step_log *log, const struct step_limit *limit,
                      int part, double *x)
{
    if (part == STEP_TIME)
        row->limit_s = without_waits(log, x);
    if (part != STEP_OPTIMIZER)
        return;
    row->limit_s = limit->seconds;
    row->loop = limit->loop;
    row->no_percent = 24 * (double)log->updated < OPTIMIZER_LEAST_BYTES;
}

int step_report(const struct step_options *o, const struct step_log *log,
                const struct step_limit *limit)
{
    static const char *const names[] = {"step", "compute", "exposed", "optimizer", "other"};
    double *x = calloc(log->n_steps, sizeof *x);
    unsigned n_wide = 0;

    if (!x)
        return zero__fail(-ENOMEM, "no memory for %u steps", log->n_steps);
    double whole = figure(log, STEP_TIME, x).median;
    double tokens = figure(log, N_STEP_PARTS + STEP_KINDS, x).median;
    if (!o->json) {
        printf("GPT-2 %s, stage %d, comm %s, %d rank%s, %s, batch %" PRIu64
               ", sequences of %" PRIu64 ", medians of %u steps, check %s\n",
               o->preset, log->stage, log->comm, log->ranks, log->ranks == 1 ? "" : "s", log->dtype,
               log->batch, log->seq, log->n_steps, check_text(o, log));
        if (log->ranks > 1)
            printf("Rank %d, which waits longest.\n", log->rank);
        printf("%-20s %12s %7s %9s %12s %9s\n", "part", "ms", "spread", "of step", "limit, ms",
               "of limit");
    }
    for (unsigned part = 0; part < N_STEP_PARTS; part++) {
        struct row row = {.name = names[part], .time = figure(log, part, x), .beside = -1};
        row.of_step = row.time.median / whole;
        n_wide += row.of_step >= LEAST_OF_STEP && row.time.spread > BENCH_WIDE_SPREAD;
        limit_put(&row, log, limit, (int)part, x);
        row_print(o, log, &row, part == STEP_TIME ? tokens : -1);
        for (unsigned k = 0; part == STEP_EXPOSED && k < log->n_kinds; k++) {
            char name[40];
            snprintf(name, sizeof name, "exposed_%s", log->kinds[k]);
            struct row kind = {
                .name = name, .time = figure(log, N_STEP_PARTS + k, x), .beside = -1};
            kind.of_step = kind.time.median / whole;
            if (kind.time.p90 > 0)
                row_print(o, log, &kind, -1);
        }
    }
    busy_print(o, log, whole, x);
    if (!o->json)
        printf("%-20s %12.0f\n", "tokens/s", tokens);
    if (!o->json)
        bench_spread_tell(n_wide);
    free(x);
    return 0;
}

double step_log_exposed(const struct step_log *log)
{
    double *x = calloc(log->n_steps, sizeof *x), most = -1;

    if (x)
        most = figure(log, STEP_EXPOSED, x).median;
    free(x);
    return most;
}
