/* SPDX-License-Identifier: Apache-2.0 */
/* zero bench step: where the time of a training step goes. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "bench.h"
#include "bench_args.h"
#include "bench_ranks.h"
#include "bench_record.h"
#include "bench_step.h"
#include "job/job.h"
#include "run.h"

#define TEXT_BYTES (1u << 20)
#define MAX_ARGS 64

static void help(FILE *f)
{
    fputs(
        "usage: zero bench step [OPTION]... [-- ARG...]\n"
        "Trains GPT-2 with zero-gpt2 under zero run and shows where the time of a step goes, on\n"
        "rank 0: compute, exposed waits (nothing to compute until another op has ended) by the\n"
        "kind of that op, optimizer, other.\n"
        "\n"
        "  --preset NAME     micro, tiny, 124M, 350M, 774M or 1.5B (tiny)\n"
        "  --stage 0-3       what is sharded (ZERO_STAGE)\n"
        "  -n, --ranks N     ranks (2)\n"
        "  --batch N         sequences of a rank\n"
        "  --seq N           tokens of a sequence\n"
        "  --dtype TYPE      f32, bf16 or f16\n"
        "  --steps N         steps that count (9)\n"
        "  --warmup N        steps before those (2)\n"
        "  --data FILE       a text (random letters)\n"
        "  --no-bind         do not bind ranks to cores of their own\n"
        "  --json            records, an object a line, instead of the table\n"
        "  -- ARG...         further options for zero-gpt2, which has the other defaults\n"
        "\n"
        "Figures are medians of the steps, so parts need not add up; spread is (90 % - 10 %\n"
        "quantile) / median. A wait is put down to the op that ended last before compute went\n"
        "on, and what is before that op's start to what it may have waited for itself. The check:\n"
        "every loss and norm is a number and no norm is 0.\n"
        "\n"
        "Exit status: 0; 1 if the training is not sound; 2 for bad use, else that of zero run.\n",
        f);
}

struct step_options {
    const char *preset, *data;
    char *args[MAX_ARGS + 1]; /* for zero-gpt2 */
    int n_args;
    uint64_t ranks, steps, warmup;
    bool json, bind;
    char folder[256], numbers[32];
};

static bool arg_add(struct step_options *o, const char *text)
{
    if (o->n_args == MAX_ARGS) {
        fprintf(stderr, "zero bench step: more than %d words for zero-gpt2: leave some out\n",
                MAX_ARGS);
        return false;
    }
    o->args[o->n_args++] = (char *)text;
    return true;
}

static bool pair_add(struct step_options *o, const char *name, const char *value)
{
    return arg_add(o, name) && arg_add(o, value);
}

enum { PRESET = 256, STAGE, BATCH, SEQ, DTYPE, STEPS, WARMUP, DATA, BIND, NO_BIND, JSON };

static const struct option longs[] = {
    {"preset", required_argument, NULL, PRESET},
    {"stage", required_argument, NULL, STAGE},
    {"ranks", required_argument, NULL, 'n'},
    {"batch", required_argument, NULL, BATCH},
    {"seq", required_argument, NULL, SEQ},
    {"dtype", required_argument, NULL, DTYPE},
    {"steps", required_argument, NULL, STEPS},
    {"warmup", required_argument, NULL, WARMUP},
    {"data", required_argument, NULL, DATA},
    {"bind", no_argument, NULL, BIND},
    {"no-bind", no_argument, NULL, NO_BIND},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool value(int c, const char *text, struct step_options *o)
{
    uint32_t dtype;

    switch (c) {
    case PRESET:
        o->preset = text;
        return true;
    case STAGE:
        return pair_add(o, "--stage", text);
    case BATCH:
        return pair_add(o, "--batch", text);
    case SEQ:
        return pair_add(o, "--seq", text);
    case DTYPE:
        return bench_dtype("step", "--dtype", text, &dtype) &&
               pair_add(o, "--dtype", zero_dtype_name(dtype));
    case 'n':
        return bench_number("step", "--ranks", text, 1, ZERO__JOB_MAX_RANKS, &o->ranks);
    case STEPS:
        return bench_number("step", "--steps", text, 1, 100000, &o->steps);
    case WARMUP:
        return bench_number("step", "--warmup", text, 0, 100000, &o->warmup);
    case DATA:
        o->data = text;
        return true;
    default:
        o->json |= c == JSON;
        if (c == BIND || c == NO_BIND)
            o->bind = c == BIND;
        return true;
    }
}

/* A path in our folder; the string is the caller's to free. */
static char *file_in(const struct step_options *o, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", o->folder, name) < 0 ? NULL : path;
}

/* What is trained on does not matter to the time, as long as it is there. */
static int text_write(const char *path)
{
    uint32_t x = 1;
    FILE *f = fopen(path, "we");

    if (!f)
        return zero__fail(-errno, "%s: cannot create: %s", path, strerror(errno));
    for (unsigned i = 0; i < TEXT_BYTES; i++) {
        x = x * 1664525u + 1013904223u;
        fputc('a' + (int)(x >> 24) % 26, f);
    }
    if (fclose(f))
        return zero__fail(-EIO, "%s: cannot write: is the disk full?", path);
    return 0;
}

/* The end of what the ranks printed, when something went wrong. */
static void show_output(const char *path)
{
    FILE *f = fopen(path, "re");
    char text[2048];

    if (!f)
        return;
    if (fseek(f, -(long)sizeof text, SEEK_END))
        rewind(f);
    size_t n = fread(text, 1, sizeof text, f);
    fwrite(text, 1, n, stderr);
    fclose(f);
}

/* Runs zero-gpt2 with its standard output in a file. */
static int train(struct step_options *o, const char *out)
{
    struct run_options run = {
        .n = (int)o->ranks, .bind = o->bind, .prefix = 0, .grace_s = 5, .argv = o->args};
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), status = 2;

    fflush(stdout);
    if (fd < 0 || saved < 0 || dup2(fd, STDOUT_FILENO) < 0)
        fprintf(stderr, "zero bench step: %s: cannot write: %s\n", out, strerror(errno));
    else if (!run_find(o->args[0], run.path, sizeof run.path))
        status = run_ranks(&run);
    if (saved >= 0) {
        dup2(saved, STDOUT_FILENO);
        close(saved);
    }
    if (fd >= 0)
        close(fd);
    if (status)
        show_output(out);
    return status;
}

/* ---- What is printed ------------------------------------------------------------------------- */

struct row {
    const char *name;
    struct bench_stats time;
    double of_step;
};

static void row_print(const struct step_options *o, const struct step_log *log,
                      const struct row *row, double tokens)
{
    const struct bench_field fields[] = {
        {"preset", 0, o->preset},
        {"stage", log->stage, NULL},
        {"parameters", (double)log->parameters, NULL},
        {"percent_of_step", 100 * row->of_step, NULL},
        {"tokens_per_s", tokens, NULL},
    };
    struct bench_record r = {.bench = "step",
                             .op = row->name,
                             .comm = log->comm,
                             .ranks = log->ranks,
                             .dtype = !strcmp(log->dtype, "fp32")   ? "f32"
                                      : !strcmp(log->dtype, "fp16") ? "f16"
                                                                    : log->dtype,
                             .time = row->time,
                             .n = log->n_steps,
                             .check = log->sound ? "ok" : "failed",
                             .fields = fields,
                             .n_fields = sizeof fields / sizeof *fields};

    if (o->json)
        bench_record_json(&r);
    else
        printf("%-20s %12.3f %6.1f%% %8.1f%%\n", row->name, row->time.median * 1e3,
               row->time.spread * 100, 100 * row->of_step);
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

static int report(const struct step_options *o, const struct step_log *log)
{
    static const char *const names[] = {"step", "compute", "exposed", "optimizer", "other"};
    double *x = calloc(log->n_steps, sizeof *x);

    if (!x)
        return zero__fail(-ENOMEM, "no memory for %u steps", log->n_steps);
    double whole = figure(log, STEP_TIME, x).median;
    double tokens = figure(log, N_STEP_PARTS + STEP_KINDS, x).median;
    if (!o->json) {
        printf("GPT-2 %s, stage %d, comm %s, %d rank%s, %s, medians of %u steps, check %s\n",
               o->preset, log->stage, log->comm, log->ranks, log->ranks == 1 ? "" : "s", log->dtype,
               log->n_steps, log->sound ? "ok" : "failed");
        printf("%-20s %12s %7s %9s\n", "part", "ms", "spread", "of step");
    }
    for (unsigned part = 0; part < N_STEP_PARTS; part++) {
        struct row row = {names[part], figure(log, part, x), 0};
        row.of_step = row.time.median / whole;
        row_print(o, log, &row, part == STEP_TIME ? tokens : -1);
        for (unsigned k = 0; part == STEP_EXPOSED && k < log->n_kinds; k++) {
            char name[40];
            snprintf(name, sizeof name, "exposed_%s", log->kinds[k]);
            struct row kind = {name, figure(log, N_STEP_PARTS + k, x), 0};
            kind.of_step = kind.time.median / whole;
            if (kind.time.p90 > 0)
                row_print(o, log, &kind, -1);
        }
    }
    if (!o->json)
        printf("%-20s %12.0f\n", "tokens/s", tokens);
    free(x);
    return 0;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int run(struct step_options *o, int argc, char **argv)
{
    char *json = file_in(o, "steps"), *ops = file_in(o, "ops"), *out = file_in(o, "out"),
         *text = file_in(o, "text");
    struct step_log log = {0};
    int status = 2, err = !json || !ops || !out || !text;

    snprintf(o->numbers, sizeof o->numbers, "%" PRIu64, o->steps + o->warmup);
    if (err)
        err = zero__fail(-ENOMEM, "no memory for names of files");
    else if (!o->data)
        err = text_write(text);
    bool fits = pair_add(o, "--preset", o->preset) && pair_add(o, "--steps", o->numbers) &&
                pair_add(o, "--data", o->data ? o->data : text) && pair_add(o, "--val", "0") &&
                pair_add(o, "--json", json) && pair_add(o, "--ops", ops);
    for (int i = 0; i < argc; i++)
        fits = fits && arg_add(o, argv[i]);
    if (!err && fits)
        status = train(o, out);
    if (!err && fits && status == 0) {
        err = step_log_read(json, ops, (unsigned)o->warmup, &log);
        if (!err)
            err = report(o, &log);
        status = err || !log.sound;
    }
    if (err)
        fprintf(stderr, "zero bench step: %s\n", zero__error_text());
    step_log_free(&log);
    char *const files[] = {json, ops, out, text};
    for (int i = 0; i < 4; i++) {
        if (files[i])
            unlink(files[i]);
        free(files[i]);
    }
    return status;
}

int bench_step(int argc, char **argv)
{
    struct step_options o = {.preset = "tiny", .ranks = 2, .steps = 9, .warmup = 2, .bind = true};
    const char *tmp = getenv("TMPDIR");
    int c;

    arg_add(&o, "zero-gpt2");
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, "+:n:h", longs, NULL)) != -1) {
        if (c == 'h') {
            help(stdout);
            return 0;
        }
        if (c == '?' || c == ':')
            return bench_bad_option("step", longs, c, argv);
        if (!value(c, optarg, &o))
            return 2;
    }
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
        return bench_bad_option("step", longs, -1, argv);
    if (!bench_ranks_may_start("bench step"))
        return 2;
    snprintf(o.folder, sizeof o.folder, "%s/zero-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(o.folder)) {
        fprintf(stderr, "zero bench step: %s: cannot create: %s: set TMPDIR\n", o.folder,
                strerror(errno));
        return 2;
    }
    int status = run(&o, argc - optind, argv + optind);
    rmdir(o.folder);
    return status;
}
