/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads a rank takes when nobody says so: its share of the cores that it may use. A core
 * that several ranks may use counts in parts, so that ranks which a launcher has bound to cores of
 * their own take all of theirs, and ranks that roam over the machine divide it. And on which memory
 * nodes all these cores are.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "memory/nodes.h"

/* Where a rank runs. */
struct seat {
    cpu_set_t cores;
    int32_t host;
    uint32_t nodes; /* as in zero__memory_nodes() */
};

/* The cores that this thread may use; the first ones where the kernel's mask has no room here. */
static void cores_of(cpu_set_t *set)
{
    long n;

    CPU_ZERO(set);
    if (!sched_getaffinity(0, sizeof *set, set) && CPU_COUNT(set) > 0)
        return;
    n = sysconf(_SC_NPROCESSORS_ONLN);
    n = n < 1 ? 1 : n > CPU_SETSIZE ? CPU_SETSIZE : n;
    for (long i = 0; i < n; i++)
        CPU_SET((size_t)i, set);
}

static uint32_t share(const struct seat *all, int ranks, int rank)
{
    double cores = 1e-6; /* three thirds are one */

    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        int sharers = 0;
        for (int r = 0; r < ranks; r++) /* core 0 of another host is another core */
            sharers += all[r].host == all[rank].host && CPU_ISSET(i, &all[r].cores) ? 1 : 0;
        if (CPU_ISSET(i, &all[rank].cores))
            cores += 1.0 / sharers;
    }
    return cores < 1 ? 1 : (uint32_t)cores;
}

int zero__threads_choose(struct zero_runtime *rt, uint32_t *threads)
{
    int64_t n = zero__option_int(rt->options, ZERO__OPT_THREADS);
    struct seat mine = {.host = zero__job_host(rt->job)};
    struct seat *all = calloc((size_t)rt->ranks, sizeof *all);
    char text[16];
    int err = 0;

    if (!all)
        return zero__fail(-ENOMEM, "no memory for the cores of %d ranks", rt->ranks);
    cores_of(&mine.cores);
    mine.nodes = zero__memory_nodes(&mine.cores, NULL);
    all[0] = mine;
    if (rt->ranks > 1) /* also those that were told a number */
        err = zero__job_allgather(rt->job, &mine, sizeof mine, all);
    for (int r = 0; r < rt->ranks && !err; r++)
        rt->memory_nodes |= all[r].nodes;
    if (!err && n <= 0) {
        n = share(all, rt->ranks, rt->rank);
        snprintf(text, sizeof text, "%d", (int)n);
        err = zero__options_choose(rt->options, ZERO__OPT_THREADS, text);
    }
    free(all);
    if (!err)
        *threads = (uint32_t)n;
    return err;
}
