/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What room a rank has in each tier, and what a recipe needs of it: its states, the transients of
 * its program, which depend on what lies where, and what a disk and a relay take of the host's
 * memory.
 */
#ifndef ZERO_PLACE_ROOM_H
#define ZERO_PLACE_ROOM_H

#include <stdint.h>

#include "schedule/program.h"

struct zero__placer;

struct zero__room {
    uint64_t tier[ZERO__N_TIERS];
    uint64_t machine;       /* for the host's memory, and the device's where that is the same */
    uint64_t device;        /* for a device's own memory, whatever its limit */
    uint64_t slack;         /* of a tier: by so much a rank's need may differ from another's */
    uint64_t kept;          /* quarters of slack that zero__room_takes() leaves free */
    uint64_t tiers;         /* that can be used, a bit each */
    uint64_t bytes_per_mib; /* of the host's memory, that the disk takes for itself */
    uint64_t relay;         /* of it, that collectives of the device's memory go through */
    uint64_t is_host;       /* the device's memory is the host's */
    uint64_t disk_is_host;  /* and that of the disk: a folder on tmpfs */
    uint64_t spread;        /* what has no fractions, and its tiers; 0: nothing; ZERO__APART */
    uint64_t options;       /* a hash of those that ranks must have in common */
};
#define ZERO__APART UINT64_MAX /* ranks differ in that, or in options */

struct zero__need {
    uint64_t tier[ZERO__N_TIERS];
};

/* Of this rank. */
int zero__room_own(struct zero__placer *placer, struct zero__room *room);
/* Collective: the least of all ranks', so that they decide alike. */
int zero__room_find(struct zero__placer *placer, struct zero__room *room);

/* Of a tier in memory, what may be taken for a while before anything has a place. */
uint64_t zero__room_lends(const struct zero__room *room, uint32_t tier);

/*
 * What was measured before: units lie in one tier whole, so most of what a search tries comes to
 * the same. Begins empty; free it.
 */
struct zero__needs {
    struct zero__need_known *list;
    uint32_t n, capacity;
};
void zero__needs_free(struct zero__needs *known);

/*
 * What the recipe's rank needs, without waits and without a search for the last bytes. known: of
 * recipes that differ in places alone, and of this rank; NULL: nothing is kept.
 */
int zero__need_measure(const struct zero__placer *placer, const struct zero__recipe *r,
                       const struct zero__room *room, struct zero__needs *known,
                       struct zero__need *need);
/* The same by the plan that a commit would make. */
int zero__need_plan(const struct zero__placer *placer, const struct zero__recipe *r,
                    const struct zero__room *room, struct zero__need *need);

/* What is needed has room, to the byte. */
int zero__room_holds(const struct zero__room *room, const struct zero__need *need);
/*
 * What is measured has room on all ranks. A tier that lacked room before, too, may lack as much
 * (before: NULL if nothing was).
 */
int zero__room_takes(const struct zero__room *room, const struct zero__need *need,
                     const struct zero__need *before);

#endif
