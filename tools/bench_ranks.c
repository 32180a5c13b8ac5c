/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of a benchmark; see bench_ranks.h. */
#include "config.h"

#include "bench_ranks.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

int bench_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

int bench_ranks_run(const char *tool, int n, bool bind, int fd, int argc, char **argv)
{
    struct run_options o = {.n = n, .bind = bind, .prefix = 0, .grace_s = 5, .terse = true};
    char **args = calloc((size_t)argc + 4, sizeof *args), rank[64];

    ssize_t len = readlink("/proc/self/exe", o.path, sizeof o.path - 1);
    if (!args || len <= 0) {
        fprintf(stderr, "zero %s: this program does not find itself in /proc\n", tool);
        free(args);
        return 2;
    }
    o.path[len] = 0;
    args[0] = (char *)"zero";
    args[1] = (char *)(uintptr_t)tool;
    args[2] = argv[0];
    snprintf(rank, sizeof rank, "--" BENCH_RANK "=%d,%d", bench_cores(), fd);
    args[3] = rank;
    for (int i = 1; i < argc; i++)
        args[3 + i] = argv[i];
    o.argv = args;
    fflush(stdout);
    int status = run_ranks(&o);
    free(args);
    return status;
}
