/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where states lie, chosen by what disks and copies have been measured to do, and how long a step
 * will take so.
 */
#ifndef ZERO_ENGINE_PLACES_H
#define ZERO_ENGINE_PLACES_H

#include "engine/runtime.h"

struct zero__costs;
struct zero__room;

/* ---- speeds.c, forecast.c */

/* Collective, after zero__tiers_open() and before zero__storage_start(): sets `speeds`. */
int zero__speeds_find(struct zero_runtime *rt);
/*
 * Collective, before anything has a place: the same, of a store of so many bytes, within the room
 * that there is. Where that cannot be, nothing is known.
 */
int zero__speeds_foresee(struct zero_runtime *rt, const struct zero__room *room, uint64_t bytes);
/*
 * Collective: each of n figures of this rank becomes the least of all ranks', 0 where one has none;
 * hosts: the same of this host's ranks.
 */
#define ZERO__FIGURES 3
int zero__figures_least(struct zero_runtime *rt, uint32_t n, double *own, double *hosts);
/*
 * What the ops of a program of this recipe will take, by what they work on, from what is known
 * before the first step: the choice of a placement and a forecast both go by it. Free them.
 */
int zero__costs_guess(const struct zero_runtime *rt, const struct zero__recipe *r,
                      const struct zero__program *p, struct zero__costs *c);

/* ---- copies.c */

/*
 * Collective: bytes a second that a rank copies between the host's memory and the device, while all
 * of its host do; 0: not measured.
 */
int zero__copies_find(struct zero_runtime *rt, const struct zero__room *room, double *rate);

/* ---- past.c */

/* Collective, with the layout known: sets `past`. */
int zero__past_find(struct zero_runtime *rt);
/* At a good end: what the last step took. */
void zero__past_note(const struct zero_runtime *rt);

/* ---- spread.c */

/* Collective. With the layout known: fractions for what is to fill its tiers, in the recipe. */
int zero__spread(struct zero_runtime *rt);

/* ---- placed.c */

/* Warns of fractions that units are too large for; after the states are laid out. */
void zero__spread_tell(struct zero_runtime *rt);
/* Warns of memory for what all lies on the disk; with the program made, nothing reserved yet. */
void zero__spare_tell(struct zero_runtime *rt);

#endif
