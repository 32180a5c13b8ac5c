/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What remedy.c tries: settings instead of those of a plan that does not fit, whether it would fit
 * with them, and how people write them.
 */
#ifndef ZERO_PLACE_TRIAL_H
#define ZERO_PLACE_TRIAL_H

#include <stddef.h>

#include "place/room.h"

/* What can be set otherwise, in the order of what it costs a step. */
enum knob { PREFETCH, BUCKET, TILE, STAGE, OFFLOAD, CHECKSUM, N_KNOBS };

/* What ZERO_OFFLOAD may be set to instead. */
enum { AS_IT_IS, OPTIMIZER_CPU, OPTIMIZER_DISK, AUTO, N_OFFLOADS };

#define LEAST_BYTES (UINT64_C(64) << 10) /* that is tried but 0 */

struct trial {
    uint64_t value[N_KNOBS]; /* OFFLOAD: one of those above; CHECKSUM: bytes of a MiB */
};

/* Limits of device and host; `more`: than there are now, UINT64_MAX: they are not what lacks. */
struct limits {
    uint64_t most[ZERO__T_CPU + 1], more;
};

struct search {
    struct zero__placer *placer;
    struct zero__room room;
    struct trial now, least;      /* least: what each can be set to that needs the least room */
    uint8_t is_programs[N_KNOBS]; /* the program sets it: no variable has an effect */
    char limits[80];              /* that a trial needs as well, in the words of its option */
    char *text;
    size_t bytes, n;
};

/* The option of a knob. */
const char *zero__knob_name(enum knob k);

int zero__trial_is_enough(const struct search *s, const struct trial *t, int *enough);
/*
 * The limits that hold a trial, of its placements the one that takes the least; where tiers are
 * filled, what was refused, or everything in the slowest one.
 */
int zero__trial_limits(const struct search *s, const struct trial *t, struct limits *out);
/* In the words of the option, those that are set; "": none is. */
void zero__limits_text(const struct zero__placer *placer, const struct limits *l, char *text,
                       size_t bytes);

/* One more alternative of the search's text: these limits, and the trial's settings. */
void zero__trial_say(struct search *s, const struct trial *t);

#endif
