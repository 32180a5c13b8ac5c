/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From logs to figures. Which op a rank waited for is told by the times of all ops: when a compute
 * op begins later than the one before it ended, the wait is over when the last op that it needed
 * ended, so the time is put down to that op; see gap_add().
 */
#include "config.h"

#include "log.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define UPDATE_BODY 2 /* of the step program */

struct op {
    int64_t step, body, start, end;
    unsigned kind;
    bool compute, works; /* the application's; or that, or kernels */
    int sort;            /* enum step_sort; -1: none of them */
};

struct ops {
    struct op *all; /* by their starts */
    size_t n, room;
    int64_t *reach;         /* of [i]: the latest end of all up to i, other than of compute */
    const struct op **step; /* all by their steps, then by their starts */
};

static const char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static int64_t whole(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

static int lines_read(const char *path, int (*fn)(void *arg, const json_t *o), void *arg)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int err = 0;

    if (!f)
        return zero__fail(-errno, "%s: cannot open: %s", path, strerror(errno));
    for (unsigned n = 1; !err && getline(&line, &room, f) > 0; n++) {
        json_t *o = json_loads(line, 0, NULL);
        err = o ? fn(arg, o) : zero__fail(-EINVAL, "%s:%u is no JSON object", path, n);
        json_decref(o);
    }
    free(line);
    fclose(f);
    return err;
}

/* The number of a kind of op; the last one stands for all that find no room. */
static unsigned kind_of(struct step_log *log, const char *name)
{
    unsigned k = 0;

    while (k < log->n_kinds && strcmp(log->kinds[k], name) != 0)
        k++;
    if (k == STEP_KINDS)
        return k - 1;
    if (k == log->n_kinds)
        snprintf(log->kinds[log->n_kinds++], sizeof log->kinds[k], "%s", name);
    return k;
}

struct reading {
    struct step_log *log;
    struct ops ops;
    unsigned warmup;
};

static int step_add(struct step_log *log, const json_t *o)
{
    static const char *const names[] = {"time_s", "compute_s", "exposed_s", "optimizer_s",
                                        "other_s"};
    struct step_figures *more = realloc(log->steps, ((size_t)log->n_steps + 1) * sizeof *more);

    if (!more)
        return zero__fail(-ENOMEM, "no memory for %u steps", log->n_steps + 1);
    log->steps = more;
    struct step_figures *s = &log->steps[log->n_steps++];
    *s = (struct step_figures){0};
    for (int i = 0; i < N_STEP_PARTS; i++)
        s->parts[i] = json_number_value(json_object_get(o, names[i]));
    s->tokens_per_s = json_number_value(json_object_get(o, "tokens_per_s"));
    s->disk_bytes =
        (double)whole(o, "disk_read_bytes") + (double)whole(o, "disk_written_bytes");
    return 0;
}

/* JSON has no word for what is no number. */
static double number_of(const json_t *o, const char *name)
{
    const json_t *x = json_object_get(o, name);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static int told_add(struct step_log *log, const json_t *o)
{
    const struct step_told told = {number_of(o, "loss"), number_of(o, "grad_norm")};
    struct step_told *more = realloc(log->told, ((size_t)log->n_told + 1) * sizeof *more);

    if (!more)
        return zero__fail(-ENOMEM, "no memory for %u steps", log->n_told + 1);
    log->told = more;
    log->told[log->n_told++] = told;
    log->tokens = number_of(o, "tokens_per_s") * number_of(o, "time_s");
    log->sound &= isfinite(told.loss) && isfinite(told.norm) && told.norm > 0;
    return 0;
}

static double planned(const json_t *memory, const char *class, bool on_device)
{
    double sum = 0;
    size_t i;
    json_t *m;

    json_array_foreach((json_t *)(uintptr_t)memory, i, m)
        if (!strcmp(text_of(m, "tier"), "device") == on_device &&
            (!class || !strcmp(text_of(m, "class"), class)))
            sum += (double)whole(m, "planned");
    return sum;
}

/* Memory is padded; states of bf16, or one of them, are less than this. */
static void update_take(struct step_log *log, const json_t *memory)
{
    uint64_t ranks = log->stage && log->ranks > 1 ? (uint64_t)log->ranks : 1;
    uint64_t n = (log->parameters + ranks - 1) / ranks;
    bool whole_states = planned(memory, "momentum", true) >= 4 * (double)n &&
                        planned(memory, "variance", true) >= 4 * (double)n;

    log->updated = whole_states && planned(memory, NULL, false) <= 0 ? n : 0;
    log->wide_grad = !strcmp(log->dtype, "fp32") || planned(memory, "accumulators", true) > 0;
}

static int line_take(void *arg, const json_t *o)
{
    struct reading *r = arg;
    struct step_log *log = r->log;

    if (!strcmp(text_of(o, "type"), "summary")) {
        snprintf(log->comm, sizeof log->comm, "%s", text_of(o, "comm"));
        snprintf(log->dtype, sizeof log->dtype, "%s", text_of(o, "dtype"));
        snprintf(log->weights, sizeof log->weights, "%s", text_of(o, "weights_hash"));
        log->vocab = (uint64_t)whole(o, "vocab");
        log->batch = (uint64_t)whole(o, "batch");
        log->seq = (uint64_t)whole(o, "seq");
        log->stage = (int)whole(o, "stage");
        log->ranks = (int)whole(o, "ranks");
        log->parameters = (uint64_t)whole(o, "parameters");
        log->disk_moved +=
            (double)whole(o, "disk_read_bytes") + (double)whole(o, "disk_written_bytes");
        log->disk_cached = log->disk_moved > 0 && !json_is_true(json_object_get(o, "disk_direct"));
        update_take(log, json_object_get(o, "memory"));
    }
    if (!strcmp(text_of(o, "type"), "forecast"))
        log->disk_limit_s = json_number_value(json_object_get(o, "compute_disk_s")) +
                            json_number_value(json_object_get(o, "update_disk_s"));
    if (strcmp(text_of(o, "type"), "step") != 0)
        return 0;
    if (whole(o, "step") == 1) /* states that are zero yet */
        log->disk_moved -= (double)whole(o, "disk_read_bytes");
    int err = told_add(log, o);
    return !err && whole(o, "step") > r->warmup ? step_add(log, o) : err;
}

static int sort_of(const char *kind, const char *queue)
{
    if (!strcmp(kind, "norm"))
        return STEP_NORM;
    if (!strcmp(queue, "gather") || !strcmp(queue, "reduce"))
        return STEP_COLLECTIVES;
    return !strcmp(queue, "fetch") || !strcmp(queue, "writeback") ? STEP_DISK : -1;
}

static int op_take(void *arg, const json_t *o)
{
    struct reading *r = arg;
    struct ops *ops = &r->ops;
    const char *queue = text_of(o, "queue");

    if (ops->n == ops->room) {
        size_t room = ops->room ? 2 * ops->room : 1024;
        struct op *more = realloc(ops->all, room * sizeof *more);
        if (!more)
            return zero__fail(-ENOMEM, "no memory for %zu ops", room);
        ops->all = more;
        ops->room = room;
    }
    bool compute = !strcmp(queue, "compute");
    ops->all[ops->n++] = (struct op){.step = whole(o, "step"),
                                     .body = whole(o, "body"),
                                     .start = whole(o, "start_ns"),
                                     .end = whole(o, "end_ns"),
                                     .kind = kind_of(r->log, text_of(o, "kind")),
                                     .compute = compute,
                                     .works = compute || !strcmp(queue, "cpu") ||
                                              !strcmp(queue, "host"),
                                     .sort = sort_of(text_of(o, "kind"), queue)};
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct op *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int by_step(const void *a, const void *b)
{
    const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;
    if (x->step != y->step)
        return (x->step > y->step) - (x->step < y->step);
    return (x->start > y->start) - (x->start < y->start);
}

/* What is looked for later would take as long as there are steps, for each step, without these. */
static int ops_index(struct ops *ops)
{
    int64_t reach = INT64_MIN;

    if (!ops->n)
        return 0;
    qsort(ops->all, ops->n, sizeof *ops->all, by_start);
    ops->reach = calloc(ops->n, sizeof *ops->reach);
    ops->step = calloc(ops->n, sizeof *ops->step);
    if (!ops->reach || !ops->step)
        return zero__fail(-ENOMEM, "no memory for %zu ops", ops->n);
    for (size_t i = 0; i < ops->n; i++) {
        const struct op *op = &ops->all[i];
        reach = !op->compute && op->end > reach ? op->end : reach;
        ops->reach[i] = reach;
        ops->step[i] = op;
    }
    qsort(ops->step, ops->n, sizeof *ops->step, by_step);
    return 0;
}

/* The number of ops before that time, by their starts; or before that step, by their steps. */
static size_t n_before(const struct ops *ops, bool by_steps, int64_t limit)
{
    size_t low = 0, high = ops->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((by_steps ? ops->step[middle]->step : ops->all[middle].start) < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The op, other than of compute, that ended last in a gap; NULL: none did. */
static const struct op *last_in(const struct ops *ops, int64_t from, int64_t to)
{
    const struct op *last = NULL;

    for (size_t i = n_before(ops, false, to); i-- > 0;) {
        const struct op *op = &ops->all[i];
        if (ops->reach[i] <= (last ? last->end : from))
            break; /* nor does any before it end later */
        if (!op->compute && op->end > from && op->end <= to && (!last || op->end > last->end))
            last = op;
    }
    return last;
}

/*
 * Puts a gap down to the ops that ended in it: its end to the last one as long as that ran, what is
 * before to the one that ended last then, which it may have waited for, and so on. Returns the
 * seconds, 0 when no op ended in the gap.
 */
static double gap_add(const struct ops *ops, int64_t from, int64_t to, struct step_figures *s)
{
    const struct op *op = last_in(ops, from, to), *next;

    if (!op)
        return 0;
    for (int64_t t = to; t > from; op = next) {
        int64_t start = op->start > from ? op->start : from;
        next = last_in(ops, from, start);
        if (!next)
            start = from;
        s->exposed[op->kind] += (double)(t - start) * 1e-9;
        t = start;
    }
    return (double)(to - from) * 1e-9;
}

/*
 * One step: the gaps between its compute ops, and the one before the update, which waits for the
 * last reductions. When the step began no op tells, so the wait before the first compute op is what
 * is left of all waits. The parts add up to what the runtime has measured.
 */
static void step_attribute(const struct ops *ops, int64_t step, struct step_figures *s)
{
    int64_t first = 0, idle = 0; /* since when nothing has been computed */
    double sum = 0, all = s->parts[STEP_EXPOSED];

    for (size_t i = n_before(ops, true, step); i < ops->n && ops->step[i]->step == step; i++) {
        const struct op *op = ops->step[i];
        /* What the last update has left behind is counted to this step, and begins before it. */
        if (!op->compute && (op->body != UPDATE_BODY || !first))
            continue;
        if (first && idle < op->start)
            sum += gap_add(ops, idle, op->start, s);
        first = first ? first : op->start;
        idle = op->end;
        if (!op->compute)
            break;
    }
    for (unsigned k = 0; sum > all && k < STEP_KINDS; k++)
        s->exposed[k] *= all / sum;
    const struct op *before = last_in(ops, 0, first);
    if (sum < all && before)
        s->exposed[before->kind] += all - sum;
}

/* Nanoseconds of an interval in which something was computed; `first` is the step's first op. */
static int64_t worked(const struct ops *ops, size_t first, int64_t from, int64_t to)
{
    int64_t until = from, ns = 0;

    for (size_t i = first; i < ops->n && ops->step[i]->start < to; i++) {
        const struct op *op = ops->step[i];
        int64_t end = op->end < to ? op->end : to;
        if (op->step != ops->step[first]->step)
            break;
        if (!op->works || end <= until)
            continue;
        ns += end - (op->start > until ? op->start : until);
        until = end;
    }
    return ns;
}

/* Ops of a sort overlap: what counts is when there was any. */
static void busy_add(const struct ops *ops, int64_t step, int sort, struct step_figures *s)
{
    int64_t until = INT64_MIN, ns = 0, beside = 0;
    size_t first = n_before(ops, true, step);

    for (size_t i = first; i < ops->n && ops->step[i]->step == step; i++) {
        const struct op *op = ops->step[i];
        if (op->sort != sort || op->end <= until)
            continue;
        int64_t from = op->start > until ? op->start : until;
        ns += op->end - from;
        beside += worked(ops, first, from, op->end);
        until = op->end;
    }
    s->busy[sort] = (double)ns * 1e-9;
    s->beside[sort] = (double)beside * 1e-9;
}

int step_log_read(const char *json, const char *ops, unsigned warmup, struct step_log *out)
{
    struct reading r = {.log = out, .warmup = warmup};

    *out = (struct step_log){.sound = true};
    int err = lines_read(json, line_take, &r);
    if (!err)
        err = lines_read(ops, op_take, &r);
    if (!err && (out->n_steps == 0 || !out->ranks))
        err = zero__fail(-EINVAL, "%s has no steps behind the warm-up, or no summary", json);
    if (!err)
        err = ops_index(&r.ops);
    for (unsigned i = 0; !err && i < out->n_steps; i++) {
        step_attribute(&r.ops, (int64_t)warmup + i + 1, &out->steps[i]);
        for (int sort = 0; sort < N_STEP_SORTS; sort++)
            busy_add(&r.ops, (int64_t)warmup + i + 1, sort, &out->steps[i]);
    }
    free(r.ops.all);
    free(r.ops.reach);
    free(r.ops.step);
    return err;
}

void step_log_free(struct step_log *log)
{
    free(log->steps);
    free(log->told);
}
