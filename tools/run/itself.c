/* SPDX-License-Identifier: Apache-2.0 */
/* Starts this program again as the ranks of a benchmark or a check. */
#include "config.h"

#include "itself.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "tools/common/cores.h"
#include "tools/common/path.h"

/*
 * Makes a tool's command line that of a rank: "CORES,FD". A variable and no option, which
 * could be typed; no ZERO_ variable, which would be one of the library's.
 */
#define GIVEN "LIBZERO_TOOL_RANK"

bool run_itself_is_rank(int *cores, int *fd)
{
    const char *given = getenv(GIVEN);
    char more;

    return given && getenv("RANK") && sscanf(given, "%d,%d%c", cores, fd, &more) == 2;
}

/*
 * Who a launcher says that this is, and of how many where it says so. The script of sbatch has
 * SLURM_PROCID and SLURM_NTASKS and runs once; what is run on each of the tasks is a step.
 */
static const struct launched {
    const char *rank, *ranks;
    bool alone; /* without a number of ranks there is one */
} launchers[] = {
    {"RANK", NULL, false},
    {"WORLD_SIZE", NULL, false},
    {"PMIX_RANK", NULL, false},
    {"PMI_RANK", "PMI_SIZE", false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true},
};

static bool is_launched(const struct launched *l)
{
    const char *ranks = l->ranks ? getenv(l->ranks) : NULL;

    return getenv(l->rank) && (ranks ? strcmp(ranks, "1") != 0 : !l->alone);
}

bool run_itself_may_start(const char *tool)
{
    for (unsigned i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *name = launchers[i].rank;
        if (!is_launched(&launchers[i]))
            continue;
        fprintf(stderr,
                "zero %s: %s is set, so this is a rank of a job already; zero %s starts ranks "
                "itself (-n): run it without a launcher, or unset %s\n",
                tool, name, tool, name);
        return false;
    }
    return true;
}

int run_itself(const char *tool, int n, bool bind, int fd, int argc, char **argv)
{
    struct run_options o = {
        .n = n, .bind = bind, .prefix = 0, .grace_s = RUN_GRACE_S, .terse = true};
    char **args = calloc((size_t)argc + 3, sizeof *args), given[64];

    if (!args || !tool_own_path(o.path, sizeof o.path)) {
        fprintf(stderr, "zero %s: this program does not find itself in /proc\n", tool);
        free(args);
        return 2;
    }
    args[0] = (char *)"zero";
    args[1] = (char *)(uintptr_t)tool;
    for (int i = 0; i < argc; i++)
        args[2 + i] = argv[i];
    o.argv = args;
    snprintf(given, sizeof given, "%d,%d", tool_cores(), fd);
    setenv(GIVEN, given, 1);
    fflush(stdout);
    int status = run_ranks(&o);
    unsetenv(GIVEN);
    free(args);
    return status;
}
