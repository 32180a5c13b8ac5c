/* SPDX-License-Identifier: Apache-2.0 */
/* States outside the device that an update works on there: brought unit by unit, and stored. */
#ifndef ZERO_SCHEDULE_EMIT_BRING_H
#define ZERO_SCHEDULE_EMIT_BRING_H

#include "schedule/tiles.h"

struct zero__bring;

int zero__bring_create(const struct zero__model *m, const struct zero__recipe *r,
                       const struct zero__states *s, struct zero__bring **bring);
void zero__bring_free(struct zero__bring *bring);
/* By segment; filled in as units are brought. */
const struct zero__brought *zero__bring_places(const struct zero__bring *bring);
/* Lists what brings a unit, and the next one. Units come in order, each. */
void zero__bring_up_to(struct zero__bring *bring, uint32_t unit, struct zero__body *b);
/* The unit's parameters go home. */
void zero__bring_back(struct zero__bring *bring, uint32_t unit, struct zero__body *b);
void zero__bring_end(struct zero__bring *bring, struct zero__body *b);

#endif
