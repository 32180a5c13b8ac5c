/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZERO_OFFLOAD: what lies in which tier, "optimizer:nvme,parameters:cpu:0.6+nvme:0.4". Several
 * tiers without fractions, "optimizer:cpu+nvme", are filled, the fastest first, as far as there is
 * room.
 */
#ifndef ZERO_BASE_PLACEMENT_H
#define ZERO_BASE_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

enum zero__placed {
    ZERO__P_PARAMETERS,
    ZERO__P_GRADIENTS,
    ZERO__P_OPTIMIZER, /* master copy and moments */
    ZERO__P_ACTIVATIONS,
    ZERO__N_PLACED,
};

#define ZERO__PLACE_PARTS 1000u /* a whole */
#define ZERO__MOST_PLACES 16u

/* A part of something, and the tier that it goes to: "device", or a plugin by name or path. */
struct zero__place {
    uint32_t what, parts; /* parts 0: as many as there is room for */
    char tier[48];
};

struct zero__placement {
    struct zero__place places[ZERO__MOST_PLACES];
    uint32_t n;
    int is_auto; /* "auto": everything, over all tiers that there are */
};

const char *zero__placed_name(uint32_t what);

/* Parses `text`; -EINVAL with the reason in why[bytes], *placement untouched. Empty: no places. */
int zero__placement_parse(const char *text, struct zero__placement *placement, char *why,
                          size_t bytes);

#endif
