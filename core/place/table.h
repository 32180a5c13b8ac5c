/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/place/: the refusal of a plan that does not fit. */
#ifndef ZERO_PLACE_TABLE_H
#define ZERO_PLACE_TABLE_H

#include "place/place.h"

/* A resource that a plan has too little of. */
struct zero__lack {
    const char *what;
    uint32_t tier, tiers; /* the tier that lacks; all tiers that lie there, a bit each */
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
