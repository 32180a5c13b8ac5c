/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero bench arena: plans the buffers of each task and prints how near the plan comes to the lower
 * bound. A file NAME.CAPACITY.csv names the bytes to fit into; without it the plan is asked to
 * reach the lower bound. A plan that does not is a plan all the same; one with overlaps is none.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lifetimes.h"
#include "machine/clock.h"
#include "tools/bench/measure/record.h"
#include "tools/bench/measure/watch.h"
#include "tools/common/args.h"
#include "tools/common/cores.h"

#define MOST_NODES UINT64_C(50000000)
#define MOST_TASKS 64u
#define MOST_BUFFERS 10000000
#define REPS 7u
#define MOST_REPS 1000u
#define ENOUGH_NS (ZERO_SECOND / 2) /* for one task, unless --reps says how often */

static void help(FILE *f)
{
    fputs("usage: zero bench arena [OPTION]... [FILE.csv]...\n"
          "Plans where in memory the buffers of each task lie and prints, for each task:\n"
          "buffers, lower bound (the most bytes alive at once), planned peak, their ratio,\n"
          "time, method.\n"
          "\n"
          "  --step LIST  tasks of so many buffers that live as those of a training step do\n"
          "  --cut LIST   tasks of so many buffers cut at random from a rectangle: the\n"
          "               lower bound can be reached, but greedy passes miss it\n"
          "  --seed N     of these tasks (1)\n"
          "  --nodes N    search effort for a task, about 5 million a second and core\n"
          "               (50M); 0: greedy passes only\n"
          "  --threads N  threads of the search (as many as cores); the plan is the same\n"
          "               with any\n"
          "  --reps N     plans of each task; by default 7, but none is begun when they\n"
          "               have taken half a second together: large tasks have fewer, or one\n"
          "               without a spread\n"
          "  --must-fit   a plan above its capacity is a failure, status 1\n"
          "  --no-check   do not look for overlaps, nor for bytes above the peak; --check\n"
          "               does\n"
          "  --json       records, an object a line, instead of the table\n"
          "\n"
          "LIST is numbers with commas, perhaps with K or M: 100,10K; the option may be\n"
          "given more than once. The method is the greedy pass that found the plan (by what\n"
          "buffers were sorted, and which gap they got), or a search, of all buffers or of\n"
          "those that are hard to place. A file starts with a line naming the columns\n"
          "id,lower,upper,size; a buffer of size bytes is alive at lower <= t < upper. The\n"
          "capacity is that of a name NAME.CAPACITY.csv, else the lower bound; fits in a\n"
          "record is 1 for a plan of no more bytes, else 0. The check: no two buffers that\n"
          "are alive together overlap, and the peak is what they take. Times are medians;\n"
          "spread is (90 % - 10 % quantile) / median; above 100 % a line says so, as it\n"
          "does when others took more than a quarter of one of its processors. There is no\n"
          "warm-up: a job plans once.\n"
          "\n"
          "Exit status: 0; 1 if a plan is wrong, or with --must-fit above its capacity; 2\n"
          "for bad use or a bad file.\n",
          f);
}

struct list {
    uint64_t sizes[MOST_TASKS];
    unsigned n;
};

struct bench {
    struct zero__plan_params params;
    struct list step, cut;
    uint64_t seed;
    unsigned reps; /* 0: REPS, if ENOUGH_NS allow */
    bool json, check, spoil, must_fit;
    bool has_head; /* that of the table, printed with the first line */
    unsigned n_wide;
};

/* What is known about the plan of a task. */
struct verdict {
    bool sound, fits;
};

static bool takes_room(const struct zero__plan_buffer *b)
{
    return b->bytes && b->first < b->last;
}

/* The first buffer gets the place of one that is alive with it; if none is, it lies higher. */
static void spoil(struct lifetimes *l)
{
    struct zero__plan_buffer *a = NULL;

    for (uint32_t i = 0; i < l->n; i++) {
        struct zero__plan_buffer *x = &l->buffers[i];
        if (!takes_room(x))
            continue;
        if (a && a->first < x->last && x->first < a->last) {
            a->offset = x->offset;
            return;
        }
        a = a ? a : x;
    }
    if (a)
        a->offset += 1;
}

/* Whether the plan holds, with a sentence if not; a negative errno if that cannot be told. */
static int plan_check(const char *name, const struct lifetimes *l, uint64_t peak, bool *sound)
{
    uint32_t x, y;
    uint64_t end = 0;
    int err = zero__plan_check(l->buffers, l->n, &x, &y);

    *sound = false;
    if (err && err != -EEXIST)
        return err;
    if (err) {
        fprintf(stderr, "zero bench arena: %s: %s\n", name, zero__error_text());
        return 0;
    }
    for (uint32_t i = 0; i < l->n; i++)
        if (takes_room(&l->buffers[i]) && l->buffers[i].offset + l->buffers[i].bytes > end)
            end = l->buffers[i].offset + l->buffers[i].bytes;
    *sound = end == peak;
    if (!*sound)
        fprintf(stderr,
                "zero bench arena: %s: the peak is said to be %" PRIu64
                ", and buffers end at %" PRIu64 "\n",
                name, peak, end);
    return 0;
}

static int task_solve(const struct bench *b, struct lifetimes *l, struct zero__plan_result *r,
                      struct bench_stats *time, unsigned *n)
{
    double times[MOST_REPS];
    unsigned reps = b->reps ? b->reps : REPS;
    int64_t all = 0;
    int err = 0;

    for (*n = 0; *n < reps && (*n == 0 || b->reps || all < ENOUGH_NS) && !err; ++*n) {
        int64_t start_ns = zero__now_ns(), ns;
        err = zero__plan_solve(l->buffers, l->n, &b->params, r);
        ns = zero__now_ns() - start_ns;
        times[*n] = (double)ns * 1e-9;
        all += ns;
    }
    *time = bench_stats_of(times, *n);
    return err;
}

/* "12.3 us", "4.56 ms", "7.89 s": three digits that say something, for 10^2 buffers and for 10^6 */
static void time_text(double s, char text[32])
{
    const char *unit = s < 1e-3 ? "us" : s < 1 ? "ms" : "s";
    double x = s < 1e-3 ? s * 1e6 : s < 1 ? s * 1e3 : s;

    snprintf(text, 32, "%.*f %s", x < 10 ? 2 : x < 100 ? 1 : 0, x, unit);
}

static void head(struct bench *b)
{
    if (!b->json && !b->has_head)
        printf("%-28s %8s %16s %16s %9s %9s %7s  %s\n", "task", "buffers", "lower bound",
               "planned peak", "ratio", "time", "spread", "method");
    b->has_head = true;
}

static void report(const struct bench *b, const char *name, const struct lifetimes *l,
                   const struct zero__plan_result *r, const struct bench_stats *time, unsigned n,
                   struct verdict v)
{
    const char *check = !b->check ? "off" : v.sound ? "ok" : "failed";
    double ratio = r->lower_bound ? (double)r->height / (double)r->lower_bound : 1.0;
    const struct bench_field fields[] = {
        {"task", 0, name},
        {"buffers", l->n, NULL},
        {"lower_bound", (double)r->lower_bound, NULL},
        {"peak", (double)r->height, NULL},
        {"ratio", ratio, NULL},
        {"fits", v.fits, NULL},
        {"method", 0, r->method},
        {"threads", b->params.n_threads, NULL},
        {"nodes", (double)b->params.node_budget, NULL},
    };
    struct bench_record record = {.bench = "arena",
                                  .op = "plan",
                                  .time = *time,
                                  .n = n,
                                  .check = check,
                                  .fields = fields,
                                  .n_fields = sizeof fields / sizeof *fields};
    char took[32], spread[16] = "-";

    time_text(time->median, took);
    if (n > 1)
        snprintf(spread, sizeof spread, "%.1f%%", 100 * time->spread);
    if (b->json)
        bench_record_json(&record);
    else
        printf("%-28s %8" PRIu32 " %16" PRIu64 " %16" PRIu64 " %9.6f %9s %7s  %s%s%s\n", name, l->n,
               r->lower_bound, r->height, ratio, took, spread, r->method,
               v.fits ? "" : " (above the capacity)", v.sound ? "" : " (check failed)");
    fflush(stdout);
}

/* Plans one task and prints its line; 0; 1: the plan is wrong; 2: there is none. */
static int task_bench(struct bench *b, const char *name, struct lifetimes *l)
{
    struct verdict v = {.sound = true};
    struct zero__plan_result r;
    struct bench_stats time;
    unsigned n;

    b->params.capacity = l->capacity;
    int err = task_solve(b, l, &r, &time, &n);
    if (!err && b->spoil)
        spoil(l);
    if (!err && b->check)
        err = plan_check(name, l, r.height, &v.sound);
    if (err) {
        fprintf(stderr, "zero bench arena: %s: %s\n", name, zero__error_text());
        return 2;
    }
    v.fits = r.height <= (l->capacity > 0 ? l->capacity : r.lower_bound);
    head(b);
    report(b, name, l, &r, &time, n, v);
    b->n_wide += n > 1 && time.spread > BENCH_WIDE_SPREAD;
    return v.sound && (v.fits || !b->must_fit) ? 0 : 1;
}

static int file_bench(struct bench *b, const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct lifetimes l;

    if (lifetimes_read(path, &l)) {
        fprintf(stderr, "zero bench arena: %s\n", zero__error_text());
        return 2;
    }
    int status = task_bench(b, name, &l);
    lifetimes_destroy(&l);
    return status;
}

/* Numbers with commas, added to *list. */
static bool list_read(const char *tool, const struct tool_arg *arg, const char *text)
{
    struct list *list = arg->to;

    for (const char *at = text;; at++) {
        char item[32];
        size_t len = strcspn(at, ",");
        uint64_t n;

        snprintf(item, sizeof item, "%.*s", len < sizeof item ? (int)len : 0, at);
        if (list->n == MOST_TASKS) {
            fprintf(stderr, "zero %s: --%s: more than %u numbers: leave some out\n", tool,
                    arg->name, MOST_TASKS);
            return false;
        }
        if (!tool_count(tool, arg->name, len < sizeof item ? item : at, 1000, 1, MOST_BUFFERS, &n))
            return false;
        list->sizes[list->n++] = n;
        at += len;
        if (!*at)
            return true;
    }
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The tasks of a list; the status of the worst. */
static int made_bench(struct bench *b, const char *kind, const struct list *list)
{
    bool step = list == &b->step;
    int status = 0;

    for (unsigned i = 0; i < list->n && status < 2; i++) {
        struct lifetimes l = {0};
        uint32_t n = (uint32_t)list->sizes[i];
        char name[64];
        int err = step ? lifetimes_step(n, b->seed, &l) : lifetimes_cut(n, b->seed, &l);
        if (err) {
            fprintf(stderr, "zero bench arena: %s\n", zero__error_text());
            return 2;
        }
        snprintf(name, sizeof name, "%s-%" PRIu32, kind, n);
        status = larger(status, task_bench(b, name, &l));
        lifetimes_destroy(&l);
    }
    return status;
}

static int run(struct bench *b, int argc, char **argv)
{
    struct bench_watch watch;

    bench_watch_begin(&watch);
    int status = made_bench(b, "step", &b->step);
    if (status < 2)
        status = larger(status, made_bench(b, "cut", &b->cut));
    for (int i = 0; i < argc; i++)
        status = larger(status, file_bench(b, argv[i]));
    if (!b->json)
        bench_spread_tell(b->n_wide);
    bench_watch_tell(&watch, b->json);
    return status;
}

int bench_arena(int argc, char **argv)
{
    struct bench b = {
        .params = {.align = 1, .node_budget = MOST_NODES, .n_threads = (uint32_t)tool_cores()},
        .seed = 1,
        .check = true};
    const struct tool_arg args[] = {
        TOOL_ARG("step", OWN, &b.step, .read = list_read),
        TOOL_ARG("cut", OWN, &b.cut, .read = list_read),
        TOOL_ARG("seed", WHOLE, &b.seed, TOOL_RANGE(0, UINT64_MAX)),
        TOOL_ARG("nodes", COUNT, &b.params.node_budget, TOOL_RANGE(0, UINT64_MAX)),
        TOOL_ARG("threads", UNSIGNED, &b.params.n_threads, TOOL_RANGE(1, 1024)),
        TOOL_ARG("reps", UNSIGNED, &b.reps, TOOL_RANGE(1, MOST_REPS)),
        TOOL_CHECKS(&b.check, &b.spoil),
        TOOL_ARG("must-fit", ON, &b.must_fit),
        TOOL_ARG("json", ON, &b.json),
    };
    int status =
        tool_args("bench arena", args, sizeof args / sizeof *args, TOOL_WORDS, help, argc, argv);

    if (status >= 0)
        return status;
    if (optind == argc && !b.step.n && !b.cut.n) {
        fputs("zero bench arena: no FILE, --step or --cut is given: see zero bench arena --help\n",
              stderr);
        return 2;
    }
    return run(&b, argc - optind, argv + optind);
}
