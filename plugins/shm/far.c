/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far two ranks are apart. Cores that share no cache fetch what the other one has just written
 * at a tenth of the speed of memory (a Zen 4, two dies: 3 GB/s; bench/NOTES.md), so there an
 * all_reduce goes another way. The kernel knows on which die a core is, but in a virtual machine it
 * is told nothing of it: a flag that goes to and fro says so everywhere.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "machine/clock.h"
#include "shm.h"

#define TRIPS 16   /* timed at once, a clock takes longer than a trip */
#define BLOCKS 4   /* of which the fastest counts */
#define FAR_NS 250 /* and less, of a trip to and fro: near */
/* Where waking takes longest, in virtual machines, it takes milliseconds. */
#define PATIENCE_NS INT64_C(5000000)

/* So many trips from number `first` on; false when the peer does not come. */
static bool trips(struct zero_comm *comm, uint64_t first, int64_t until)
{
    _Atomic uint64_t *own = &comm->lanes[comm->rank].flag;
    const _Atomic uint64_t *peer = &comm->lanes[!comm->rank].flag;

    for (uint64_t i = first; i < first + TRIPS; i++) {
        if (comm->rank == 0)
            atomic_store(own, i);
        for (unsigned turn = 1; atomic_load(peer) < i; turn++)
            if (turn % 64 == 0 && zero__now_ns() > until)
                return false;
        if (comm->rank != 0)
            atomic_store(own, i);
    }
    return true;
}

/* Nanoseconds of a trip; 0: nobody knows. */
static uint32_t trip_ns(struct zero_comm *comm)
{
    int64_t until = zero__now_ns() + PATIENCE_NS, least = INT64_MAX;

    for (uint64_t b = 0; b < BLOCKS; b++) {
        int64_t start = zero__now_ns(), took;
        if (!trips(comm, 1 + b * TRIPS, until))
            return 0;
        took = zero__now_ns() - start;
        least = took < least ? took : least;
    }
    return (uint32_t)(least / TRIPS);
}

int zero__shm_far_find(struct zero_comm *comm)
{
    struct shm_notice mine = {.call = SHM_CALL_SPLIT};
    const char *wanted = secure_getenv("ZERO_TEST_SHM_FAR"); /* tests: 0 or 1 */
    int err;

    if (comm->ranks != 2)
        return 0;
    if (wanted)
        mine.trip_ns = *wanted == '1' ? FAR_NS + 1 : FAR_NS;
    else if (!comm->ctx->idle.shared)
        mine.trip_ns = trip_ns(comm);
    err = zero__board_gather(comm->ctx, &comm->table, &mine, comm->ctx->notices);
    if (err)
        return err;
    mine.trip_ns = comm->ctx->notices[0].trip_ns; /* both say what rank 0 says */
    comm->far = mine.trip_ns > FAR_NS;
    if (comm->rank == 0 && mine.trip_ns)
        zero__tell(&comm->ctx->voice, ZERO_LOG_DEBUG, "rank %d and back takes %u ns: %s",
                   comm->world[1], mine.trip_ns, comm->far ? "far" : "near");
    else if (comm->rank == 0)
        zero__tell(&comm->ctx->voice, ZERO_LOG_DEBUG,
                   "how far rank %d is away is not known: taken for near", comm->world[1]);
    return 0;
}
