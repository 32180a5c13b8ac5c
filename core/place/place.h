/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of core/place/: in which tiers states lie, the memory that is reserved there, refusals
 * of what does not fit, and forecasts of a step's time. The application's thread calls it at
 * create, at commit and between steps. "Collective": all ranks call, and get the same answer.
 */
#ifndef ZERO_PLACE_PLACE_H
#define ZERO_PLACE_PLACE_H

#include "run/run.h"

struct zero__placer;

/* ---- placer.c */

/* The site and the runner must outlive it. It adds tiers, slabs and placements to the site. */
int zero__placer_create(struct zero__site *site, struct zero__runner *run,
                        struct zero__placer **out);
void zero__placer_free(struct zero__placer *placer);
/* The placement of the states in the words of ZERO_OFFLOAD; "": all on the device. */
const char *zero__placement(const struct zero__placer *placer);

/* ---- tiers.c */

/* Loads the plugins of ZERO_OFFLOAD, and notes what it places in which tier. */
int zero__tiers_load(struct zero__placer *placer);

/* ---- spread.c, placed.c */

/*
 * Collective, with the layout known: chooses fractions, in the site's recipe, for everything that
 * ZERO_OFFLOAD leaves to the library.
 */
int zero__spread(struct zero__placer *placer);
/* Warns of fractions that units are too large for; after the states are laid out. */
void zero__spread_tell(struct zero__placer *placer);
/* Warns of host memory left while everything lies on the disk; before anything is reserved. */
void zero__spare_tell(struct zero__placer *placer);

/* ---- memory.c: collective */

/* Reserves what the program needs, or refuses on all ranks with a table of what lacks. */
int zero__memory_reserve(struct zero__placer *placer);
/* Reserves more for a new program, while nothing is in flight. */
int zero__memory_grow(struct zero__placer *placer);
/* Maps the peers' parameters where the recipe says so, before the progress thread runs. */
int zero__memory_map(struct zero__placer *placer);
/* Gives back what came from the device, before it closes; then the rest. Not collective. */
void zero__memory_release(struct zero__placer *placer, int of_device);

/* ---- table.c */

/* The memory table of a program: what reports print and refusals explain. */
struct zero__table {
    struct zero__table_tier {
        uint64_t planned[ZERO_N_CLASSES]; /* most bytes of the class live at once */
        uint64_t share[ZERO_N_CLASSES];   /* bytes at the fullest point; adds up to reserved */
        uint64_t reserved, lower_bound;
    } tiers[ZERO__N_TIERS];
    /* In reserved and lower_bound of the tier cpu, in no class: memory that the disk's store takes
     * for checksums, and memory through which collectives of the device's memory go. */
    uint64_t checksums, relay;
};
void zero__table_fill(const struct zero__states *s, const struct zero__program *p,
                      uint64_t checksums, uint64_t relay, struct zero__table *t);
/* The table of the program that runs. */
void zero__table_now(const struct zero__placer *placer, struct zero__table *t);

/* ---- forecast.c, past.c */

/* zero_forecast(). */
int zero__forecast(struct zero__placer *placer, struct zero_forecast *forecast);
/* At a good end: keeps what the last step took, for later jobs. */
void zero__past_note(const struct zero__placer *placer);

#endif
