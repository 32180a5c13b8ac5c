/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/run/: collectives on memory that the transport cannot take; see relay.c. */
#ifndef ZERO_RUN_RELAY_H
#define ZERO_RUN_RELAY_H

#include "run/run.h"

struct zero__slot;

/* Takes an op; -EAGAIN: another one is in flight. zero__relay_turn() is to follow. */
int zero__relay_start(struct zero__runner *run, uint32_t queue, struct zero__slot *s,
                      const struct zero_coll *colls, uint32_t n);
/* Advances what is in flight; > 0: something moved. */
int zero__relay_turn(struct zero__runner *run);
/* The transport has completed a piece. */
int zero__relay_came(struct zero__runner *run, uint32_t queue, uint32_t piece);
/* Bytes of the gather in flight that this rank has not sent. */
uint64_t zero__relay_left(const struct zero__runner *run);

#endif
