/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads a rank takes when nobody says so: its share of the cores that it may use, and of
 * the time that control groups give it. A core that several ranks may use counts in parts, so that
 * ranks which a launcher has bound to cores of their own take all of theirs, and ranks that roam
 * over the machine divide it; so do ranks of one group its time. And on which memory nodes all
 * these cores are.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "machine/cores.h"
#include "machine/nodes.h"

/* Where a rank runs. */
struct seat {
    struct zero__cores cores;
    uint64_t group; /* that limits its time, as a hash of its name */
    int32_t host;
    uint32_t time;  /* of so many processors; 0: of all */
    uint32_t nodes; /* as in zero__memory_nodes() */
    uint32_t reserved;
};

static struct seat seat_here(struct zero_runtime *rt)
{
    struct seat s = {.host = zero__job_host(rt->site.job)};
    char group[ZERO__GROUP_FOLDER];
    uint64_t time = zero__cores_time(NULL, group);

    zero__cores_here(&s.cores);
    s.nodes = zero__memory_nodes(&s.cores, NULL);
    if (time < ZERO__CORES_MOST) {
        s.time = time ? (uint32_t)time : 1;
        s.group = XXH3_64bits(group, strlen(group));
    }
    return s;
}

static uint32_t share(const struct seat *all, int ranks, const struct seat *mine)
{
    double cores = 1e-6, time; /* three thirds are one */
    int sharers = 0;

    for (uint32_t i = 0; i < ZERO__CORES_MOST; i++) {
        int users = 0;
        for (int r = 0; r < ranks; r++) /* core 0 of another host is another core */
            users += all[r].host == mine->host && zero__cores_has(&all[r].cores, i);
        if (zero__cores_has(&mine->cores, i))
            cores += 1.0 / users;
    }
    for (int r = 0; r < ranks; r++)
        sharers += all[r].host == mine->host && all[r].group == mine->group;
    time = mine->time ? (double)mine->time / sharers + 1e-6 : cores;
    cores = time < cores ? time : cores;
    return cores < 1 ? 1 : (uint32_t)cores;
}

int zero__threads_choose(struct zero_runtime *rt)
{
    struct seat mine = seat_here(rt);
    int err; /* also those are asked that were told a number */
    struct seat *all = zero__ranks_ask(&rt->site, &mine, sizeof mine, &err);
    char text[16];

    for (int r = 0; r < rt->site.ranks && !err; r++)
        rt->site.memory_nodes |= all[r].nodes;
    if (!err && zero__option_int(rt->site.options, ZERO__OPT_THREADS) <= 0) {
        snprintf(text, sizeof text, "%u", share(all, rt->site.ranks, &mine));
        err = zero__options_choose(rt->site.options, ZERO__OPT_THREADS, text);
    }
    free(all);
    return err;
}
