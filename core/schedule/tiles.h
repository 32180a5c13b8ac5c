/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of optimizer states that lie in another tier than the device: tile by tile, through
 * memory of the host of a constant size. A tile's states are fetched while the tile before it is
 * updated and the one before that is written back (ZeRO-Infinity, SC 2021, section 5.1.1:
 * FETCH(i+1) beside UPDATE(i) beside WRITEBACK(i-1)). Nothing of a fetch depends on the gradients,
 * so the first ones run while the norm is still being computed.
 */
#ifndef ZERO_SCHEDULE_TILES_H
#define ZERO_SCHEDULE_TILES_H

#include "schedule/program.h"

struct zero__tiles;

/*
 * Transients of the device that a segment's home outside of it is brought into; ZERO_NONE where it
 * is not, ZERO__TO_BRING where it has yet to be.
 */
#define ZERO__TO_BRING (ZERO_NONE - 1)
struct zero__brought {
    uint32_t param, grad;
    uint64_t grad_off; /* of the part that the update reads */
};

/* The tier of a segment's optimizer states; the device where it has none. */
uint32_t zero__optimizer_tier(const struct zero__states *s, uint32_t segment);

/*
 * What of the units (NULL: all) is to be updated in tiles, in their order: what is early beside the
 * backward pass, or the rest in the update body. *tiles is NULL where nothing is.
 * `brought`, by segment, is read as units are updated; parameters that are not brought are updated
 * at home.
 */
int zero__tiles_create(const struct zero__model *m, const struct zero__recipe *r,
                       const struct zero__states *s, const struct zero__brought *brought,
                       const uint32_t *units, uint32_t n_units, int early,
                       struct zero__tiles **tiles);
void zero__tiles_free(struct zero__tiles *tiles);

/* Fetches the first tiles. */
void zero__tiles_begin(struct zero__tiles *tiles, struct zero__body *b);
/* The updates of a unit's tiles. Units come in order. */
void zero__tiles_update(struct zero__tiles *tiles, uint32_t unit, struct zero__body *b);

#endif
