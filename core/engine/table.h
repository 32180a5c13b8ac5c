/* SPDX-License-Identifier: Apache-2.0 */
/* The memory table of a program: what reports print and refusals explain. */
#ifndef ZERO_ENGINE_TABLE_H
#define ZERO_ENGINE_TABLE_H

#include "schedule/program.h"

struct zero__table {
    struct zero__table_tier {
        uint64_t planned[ZERO_N_CLASSES]; /* most bytes of the class live at once */
        uint64_t share[ZERO_N_CLASSES];   /* bytes at the fullest point; adds up to reserved */
        uint64_t reserved, lower_bound;
    } tiers[ZERO__N_TIERS];
    uint64_t checksums, relay; /* in reserved and lower_bound of the tier cpu, in no class */
};

/*
 * Bytes of the host's memory: checksums, that the disk's store takes for itself; relay, that
 * collectives of the device's memory go through.
 */
void zero__table_fill(const struct zero__states *s, const struct zero__program *p,
                      uint64_t checksums, uint64_t relay, struct zero__table *t);

/* What a plan has too little of. */
struct zero__lack {
    const char *what;
    uint32_t tier, tiers; /* which one it is that lacks; all that lie there, a bit each */
    uint64_t need, available;
    int more;     /* need is beside what is reserved already */
    int per_rank; /* it is a limit of each rank, not of the machine that they share */
    uint32_t sharers;
};

/*
 * -ENOMEM, with the table of these tiers, what the others hold, and what would help as the error's
 * text. tried: settings that are enough (remedy.h), which may be none; NULL where none were tried.
 * stage: how the last one is set.
 */
int zero__table_refuse(const struct zero__table *table, const struct zero__lack *lack,
                       const struct zero__recipe *r, const char *tried, const char *stage);

#endif
