/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/place/: the state that its files share, and what they call of each other. */
#ifndef ZERO_PLACE_PLACER_H
#define ZERO_PLACE_PLACER_H

#include "place/place.h"

struct zero__room;

/* Times of a step in the last job of this kind; compute_s 0: unknown. */
struct zero__past {
    double compute_s, update_s;
    struct zero__speeds speeds; /* of the disk, then */
};

struct zero__placer {
    struct zero__site *site;
    struct zero__runner *run;
    char placement[1024];           /* as ZERO_OFFLOAD says it */
    uint8_t spread[ZERO__N_PLACED]; /* without fractions: tiers, a bit each, that it fills */
    int is_auto;                    /* ZERO_OFFLOAD=auto: everything is without fractions */
    struct zero__speeds speeds;     /* of the disk, while all ranks use it; 0: not measured */
    double copies;          /* bytes a second between device and host memory; 0: not measured */
    struct zero__past past; /* where something is spread over a disk */
};

/* ---- tiers.c */

/* Loads tiers as if ZERO_OFFLOAD were auto; those that cannot be used are left out, silently. */
void zero__tiers_try(struct zero__placer *placer);
/* The user has set an option of the plugin's own. */
int zero__tier_is_set(const struct zero__placer *placer, const char *name);
/* Opens a store of the tier's plugin. A trial store is not the job's, and warns of nothing. */
int zero__store_open(struct zero__placer *placer, struct zero__tier_store *t, uint64_t bytes,
                     int is_trial);
/* Host memory that a store of so many bytes takes for checksums. */
uint64_t zero__disk_beside(uint32_t bytes_per_mib, uint64_t bytes);

/* ---- slabs.c */

/* Reserves what the program needs in the tiers beside the device. */
int zero__tiers_open(struct zero__placer *placer);
/* Before the device closes. */
void zero__tiers_unpin(struct zero__placer *placer);
void zero__tiers_close(struct zero__placer *placer);
/* More room for transients in host memory, while nothing is in flight. */
int zero__cpu_grow(struct zero__placer *placer, uint64_t transient_bytes);
/* Room on the disk for the program that is now the first one, while nothing is in flight. */
int zero__disk_grow(struct zero__placer *placer);

/* ---- fits.c */

/* device, extra: bytes that are to be reserved in addition, of the device and of host memory. */
int zero__memory_fits(struct zero__placer *placer, uint64_t device, uint64_t extra);

/* ---- disk_room.c */

/* Bytes of the disk that a rank may fill. */
uint64_t zero__disk_room(const struct zero__placer *placer);
/* The disk is a folder in host memory. */
int zero__disk_is_host(const struct zero__placer *placer);
/* Host memory for checksums of what the program has on the disk. */
uint64_t zero__checksum_bytes(const struct zero__placer *placer);

/* ---- speeds.c: collective */

/* Sets `speeds`, after zero__tiers_open() and before the storage thread runs. */
int zero__speeds_find(struct zero__placer *placer);
/*
 * Sets `speeds` before anything has a place, of a store of so many bytes, within the room that
 * there is. Where no trial store can be had, they stay unknown.
 */
int zero__speeds_foresee(struct zero__placer *placer, const struct zero__room *room,
                         uint64_t bytes);
/*
 * Each of n figures of this rank becomes the least of all ranks', 0 where one has none; hosts: the
 * least of this host's ranks.
 */
#define ZERO__FIGURES 3
int zero__figures_least(struct zero__placer *placer, uint32_t n, double *own, double *hosts);

/* ---- copies.c */

/*
 * Collective: bytes a second that a rank copies between host memory and the device, while all of
 * its host do; 0: not measured.
 */
int zero__copies_find(struct zero__placer *placer, const struct zero__room *room, double *rate);

/* ---- past.c */

/* Collective, with the layout known: sets `past`. */
int zero__past_find(struct zero__placer *placer);

/* ---- forecast.c */

/*
 * Estimates the time of each op of a program, from figures that are known before the first step.
 * Placements are chosen and steps are forecast by these estimates. The caller frees them.
 */
int zero__costs_guess(const struct zero__placer *placer, const struct zero__recipe *r,
                      const struct zero__program *p, struct zero__costs *c);

#endif
