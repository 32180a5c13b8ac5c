/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processors that a rank may use, those of all ranks of a host together, and what caches these
 * have: whether ranks share cores, and what goes past the caches, depends on where they may run and
 * not on how large the machine is.
 */
#ifndef ZERO_MACHINE_CORES_H
#define ZERO_MACHINE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#include "machine/groups.h"

#define ZERO__CORES_MOST 1024u /* of the kernel's numbers; what comes behind them is not seen */

/* A set, the same for all ranks that put theirs together. */
struct zero__cores {
    uint64_t bits[ZERO__CORES_MOST / 64];
};

/*
 * Those of this thread; where the kernel does not say, or all have higher numbers, as many as there
 * are, from the first one on.
 */
void zero__cores_here(struct zero__cores *c);
void zero__cores_add(struct zero__cores *c, const struct zero__cores *more);
/* Those of a list of the kernel's, "0-3,8"; how many it has, also those not seen, 0: it is none. */
uint32_t zero__cores_read(struct zero__cores *c, const char *list);
/*
 * Of how many processors control groups give this process the time (docker --cpus); UINT64_MAX: of
 * all. In group[ZERO__GROUP_FOLDER] the narrowest group, "": none limits; NULL: nobody asks.
 * `root`: in front of /proc and /sys, NULL: nothing.
 */
uint64_t zero__cores_time(const char *root, char *group);
/* How many of a set can be busy all the time. */
uint32_t zero__cores_busy(const struct zero__cores *c, const char *root);
bool zero__cores_has(const struct zero__cores *c, uint32_t cpu);
uint32_t zero__cores_count(const struct zero__cores *c);

/*
 * Bytes of `all` caches that the cores can count on, and of the largest that one `core` has for
 * itself. From `copies` bytes of traffic on copies go past the caches, beyond `sums` those sums
 * that nobody reads soon. Guesses where the kernel does not say.
 */
struct zero__caches {
    uint64_t all, core, copies, sums;
};

/* `root`: where the kernel tells of processors, NULL: /sys/devices/system/cpu. */
void zero__caches_find(struct zero__caches *out, const struct zero__cores *c, const char *root);

#endif
