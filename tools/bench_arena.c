/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero bench arena: plans the buffers of each task and prints how near the plan comes to the lower
 * bound. A file NAME.CAPACITY.csv names the bytes to fit into; without it the plan is asked to
 * reach the lower bound. Every plan is checked for overlaps before its line is printed.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bench.h"
#include "lifetimes.h"

#define NODES UINT64_C(50000000)
#define MOST_BUFFERS 10000000
#define RUNS 5
#define ENOUGH_NS (ZERO_SECOND / 2)

static void help(FILE *f)
{
    fputs(
        "usage: zero bench arena [OPTION]... [FILE.csv]...\n"
        "Plans where in memory the buffers of each task lie and prints, for each task: buffers,\n"
        "lower bound (the most bytes alive at once), planned peak, their ratio, time, method.\n"
        "\n"
        "  --step LIST  tasks of so many buffers that live as those of a training step do\n"
        "  --cut LIST   tasks of so many buffers cut at random from a rectangle: the lower bound\n"
        "               can be reached, but greedy passes miss it\n"
        "  --seed N     of these tasks (1)\n"
        "  --nodes N    search effort for a file, about 5 million a second and core (50000000);\n"
        "               0: greedy passes only\n"
        "  --threads N  threads of the search (as many as cores); the plan is the same with any\n"
        "  --json       one JSON object a line instead of a table\n"
        "\n"
        "\n"
        "LIST is numbers with commas: 100,1000. A file starts with a line naming the columns\n"
        "id,lower,upper,size; a buffer of size bytes is alive at lower <= t < upper. The capacity\n"
        "is that of a name NAME.CAPACITY.csv, else the lower bound. Times are medians of up to\n"
        "five runs. Exit status: 0; 1 if a plan is above its capacity; 2 for bad use or a bad\n"
        "file.\n",
        f);
}

struct bench {
    struct zero__plan_params params;
    uint64_t seed;
    bool json;
};

static int later(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Plans a task, as often as RUNS and ENOUGH_NS allow; the median time in *time_ns. */
static int task_solve(const struct bench *b, struct zero__lifetimes *l,
                      struct zero__plan_result *r, int64_t *time_ns)
{
    int64_t times[RUNS], all = 0;
    uint32_t x, y;
    int n = 0, err = 0;

    while (n < RUNS && (n == 0 || all < ENOUGH_NS) && !err) {
        int64_t start_ns = zero__now_ns();
        err = zero__plan_solve(l->buffers, l->n, &b->params, r);
        times[n] = zero__now_ns() - start_ns;
        all += times[n++];
    }
    if (!err)
        err = zero__plan_check(l->buffers, l->n, &x, &y);
    qsort(times, (size_t)n, sizeof *times, later);
    *time_ns = times[n / 2];
    return err;
}

/* Plans one task and prints its line; 0 fits, 1 does not, 2 could not be planned. */
static int task_bench(struct bench *b, const char *name, struct zero__lifetimes *l)
{
    struct zero__plan_result r;
    int64_t time_ns;

    b->params.capacity = l->capacity;
    if (task_solve(b, l, &r, &time_ns)) {
        fprintf(stderr, "zero bench arena: %s: %s\n", name, zero__error_text());
        return 2;
    }
    uint64_t capacity = l->capacity > 0 ? l->capacity : r.lower_bound;
    bool fits = r.height <= capacity;
    double ratio = r.lower_bound ? (double)r.height / (double)r.lower_bound : 1.0;
    if (b->json)
        printf("{\"bench\":\"arena\",\"op\":\"plan\",\"task\":\"%s\",\"buffers\":%" PRIu32
               ",\"lower_bound\":%" PRIu64 ",\"peak\":%" PRIu64 ",\"ratio\":%.9f,\"median_s\":%.6f,"
               "\"method\":\"%s\",\"check\":%s}\n",
               name, l->n, r.lower_bound, r.height, ratio, (double)time_ns / 1e9, r.method,
               fits ? "true" : "false");
    else
        printf("%-28s %8" PRIu32 " %16" PRIu64 " %16" PRIu64 " %9.6f %9.3f  %s%s\n", name, l->n,
               r.lower_bound, r.height, ratio, (double)time_ns / 1e9, r.method,
               fits ? "" : " (above the capacity)");
    fflush(stdout);
    return fits ? 0 : 1;
}

static int file_bench(struct bench *b, const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct zero__lifetimes l;

    if (zero__lifetimes_read(path, &l)) {
        fprintf(stderr, "zero bench arena: %s\n", zero__error_text());
        return 2;
    }
    int status = task_bench(b, name, &l);
    zero__lifetimes_destroy(&l);
    return status;
}

/* A whole number of at most `most`; else a line on standard error. */
static bool number_read(const char *option, const char *text, uint64_t most, uint64_t *out)
{
    char *end;

    errno = 0;
    unsigned long long x = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || x > most) {
        fprintf(stderr,
                "zero bench arena: %s is \"%s\", which is no whole number up to %" PRIu64 "\n",
                option, text, most);
        return false;
    }
    *out = x;
    return true;
}

/* The tasks of a LIST; the status of the worst. */
static int made_bench(struct bench *b, const char *option, char *list)
{
    int step = !strcmp(option, "--step"), status = 0;

    for (char *rest, *item = strtok_r(list, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        struct zero__lifetimes l = {0};
        char name[64];
        uint64_t n;
        if (!number_read(option, item, MOST_BUFFERS, &n))
            return 2;
        int err = step ? zero__lifetimes_step((uint32_t)n, b->seed, &l)
                       : zero__lifetimes_cut((uint32_t)n, b->seed, &l);
        if (err) {
            fprintf(stderr, "zero bench arena: %s\n", zero__error_text());
            return 2;
        }
        snprintf(name, sizeof name, "%s-%" PRIu64, step ? "step" : "cut", n);
        int one = task_bench(b, name, &l);
        status = one > status ? one : status;
        zero__lifetimes_destroy(&l);
    }
    return status;
}

int bench_arena(int argc, char **argv)
{
    static const struct option options[] = {
        {"nodes", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"step", required_argument, NULL, 's'},
        {"cut", required_argument, NULL, 'c'},
        {"seed", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n_threads = n_cores > 0 ? (uint64_t)n_cores : 1;
    struct bench b = {.params = {.align = 1, .node_budget = NODES}, .seed = 1};
    char *step = NULL, *cut = NULL;
    int status = 0, c;

    optind = 1;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'h') {
            help(stdout);
            return 0;
        }
        step = c == 's' ? optarg : step;
        cut = c == 'c' ? optarg : cut;
        b.json |= c == 'j';
        if (c == '?' || (c == 'n' && !number_read("--nodes", optarg, UINT64_MAX,
                                                  &b.params.node_budget)) ||
            (c == 't' && !number_read("--threads", optarg, 1024, &n_threads)) ||
            (c == 'r' && !number_read("--seed", optarg, UINT64_MAX, &b.seed)))
            return 2;
    }
    if (optind == argc && !step && !cut) {
        help(stderr);
        return 2;
    }
    b.params.n_threads = (uint32_t)n_threads;
    if (!b.json)
        printf("%-28s %8s %16s %16s %9s %9s  %s\n", "task", "buffers", "lower bound",
               "planned peak", "ratio", "seconds", "method");
    if (step)
        status = made_bench(&b, "--step", step);
    if (cut && status < 2) {
        int one = made_bench(&b, "--cut", cut);
        status = one > status ? one : status;
    }
    for (int i = optind; i < argc; i++) {
        int one = file_bench(&b, argv[i]);
        status = one > status ? one : status;
    }
    return status;
}
