/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero bench arena FILE.csv...: plans the buffers of each file and prints how near the plan comes
 * to the lower bound. NAME.CAPACITY.csv names the bytes to fit into; without it the plan is asked
 * to reach the lower bound. Every plan is checked for overlaps before its line is printed.
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

static void help(FILE *f)
{
    fputs(
        "usage: zero bench arena [--nodes N] [--threads N] FILE.csv...\n"
        "Plans where in memory the buffers of each file lie and prints, for each file: buffers,\n"
        "lower bound (the most bytes alive at once), planned peak, their ratio, time, method.\n"
        "\n"
        "  --nodes N    search effort for a file, about 5 million a second and core (50000000);\n"
        "               0: greedy passes only\n"
        "  --threads N  threads of the search (as many as cores); the plan is the same with any\n"
        "\n"
        "A file starts with a line naming the columns id,lower,upper,size; a buffer of size bytes\n"
        "is alive at lower <= t < upper. The capacity is that of a name NAME.CAPACITY.csv, else\n"
        "the lower bound. Exit status: 0; 1 if a plan is above its capacity; 2 for bad use or a\n"
        "bad file.\n",
        f);
}

/* Plans one file and prints its line; 0 fits, 1 does not, 2 could not be planned. */
static int file_bench(const char *path, struct zero__plan_params params)
{
    struct zero__lifetimes l;
    struct zero__plan_result r;
    uint32_t a, b;

    if (zero__lifetimes_read(path, &l)) {
        fprintf(stderr, "zero bench arena: %s\n", zero__error_text());
        return 2;
    }
    params.capacity = l.capacity;
    int64_t start_ns = zero__now_ns();
    int err = zero__plan_solve(l.buffers, l.n, &params, &r);
    int64_t time_ns = zero__now_ns() - start_ns;
    if (!err)
        err = zero__plan_check(l.buffers, l.n, &a, &b);
    if (err) {
        fprintf(stderr, "zero bench arena: %s: %s\n", path, zero__error_text());
        zero__lifetimes_destroy(&l);
        return 2;
    }
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    uint64_t capacity = l.capacity > 0 ? l.capacity : r.lower_bound;
    bool fits = r.height <= capacity;
    printf("%-28s %8" PRIu32 " %16" PRIu64 " %16" PRIu64 " %9.6f %9.3f  %s%s\n", name, l.n,
           r.lower_bound, r.height, r.lower_bound ? (double)r.height / (double)r.lower_bound : 1.0,
           (double)time_ns / 1e9, r.method, fits ? "" : " (above the capacity)");
    fflush(stdout);
    zero__lifetimes_destroy(&l);
    return fits ? 0 : 1;
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

int bench_arena(int argc, char **argv)
{
    static const struct option options[] = {
        {"nodes", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t nodes = NODES, n_threads = n_cores > 0 ? (uint64_t)n_cores : 1;
    int status = 0, c;

    optind = 1;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c == 'h') {
            help(stdout);
            return 0;
        }
        if (c == '?' || (c == 'n' && !number_read("--nodes", optarg, UINT64_MAX, &nodes)) ||
            (c == 't' && !number_read("--threads", optarg, 1024, &n_threads)))
            return 2;
    }
    if (optind == argc) {
        help(stderr);
        return 2;
    }
    struct zero__plan_params params = {
        .align = 1, .node_budget = nodes, .n_threads = (uint32_t)n_threads};
    printf("%-28s %8s %16s %16s %9s %9s  %s\n", "file", "buffers", "lower bound", "planned peak",
           "ratio", "seconds", "method");
    for (int i = optind; i < argc; i++) {
        int one = file_bench(argv[i], params);
        if (one > status)
            status = one;
    }
    return status;
}
