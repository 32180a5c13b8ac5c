/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether ranks share processors depends on what all of them may use together: those that are bound
 * to one each share nothing, though each of them sees but one.
 */
#define _GNU_SOURCE
#include CORES_INSIDE

#include "comm.h"

#include <sched.h>

#define RANKS 2

static cpu_set_t sets[RANKS];
static bool wanted;

static void bound(struct rank *r)
{
    struct comm_rank c = {0};

    if (want(r, !sched_setaffinity(0, sizeof sets[0], &sets[r->rank]), "cannot be bound") &&
        comm_open(r, &c, CORES_PLUGIN, 4096, NULL, 0)) {
        want(r, c.ctx->idle.shared == wanted, "it shares its core: %d, and should: %d",
             c.ctx->idle.shared, wanted);
        want(r, comm_barrier(&c, c.world) == 0, "barrier: %s", zero_last_error());
    }
    comm_end(r, &c);
}

static void run(const char *what)
{
    ranks_good(comm_ranks(RANKS, CORES_HOW, bound, NULL), RANKS, CORES_PLUGIN ": %s", what);
}

int main(void)
{
    struct zero__cores all;
    uint32_t n = 0;

    if (strcmp(CORES_PLUGIN, "mem") == 0)
        comm_test_plugins();
    zero__cores_here(&all);
    for (uint32_t cpu = 0; cpu < ZERO__CORES_MOST && n < RANKS; cpu++)
        if (zero__cores_has(&all, cpu))
            CPU_SET(cpu, &sets[n++]);
    if (n < RANKS || zero__cores_busy(&all, NULL) < RANKS)
        skip(CORES_PLUGIN ": ranks that are bound to a processor each",
             "fewer than two processors may be used here");
    else
        run("ranks that are bound to a processor each share none");
    sets[1] = sets[0];
    wanted = true;
    run("those that are bound to the same one share it");
    done();
}
