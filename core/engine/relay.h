/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on memory that the transport cannot take; see relay.c. */
#ifndef ZERO_ENGINE_RELAY_H
#define ZERO_ENGINE_RELAY_H

#include <stdint.h>

struct slot;
struct zero_coll;
struct zero_runtime;
struct zero_slice;

/* Bytes of the host that it takes; 0: there is none, the transport takes the device's memory. */
uint64_t zero__relay_bytes(const struct zero_runtime *rt);
/* Local; then collective. What was opened is closed by zero__relay_close(), also after an error. */
int zero__relay_open(struct zero_runtime *rt);
struct zero_mr *zero__relay_mr(struct zero_runtime *rt);
/* Before the device closes; then before the context does. */
void zero__relay_close(struct zero_runtime *rt, int of_device);

/* Takes an op; -EAGAIN: another one is under way. zero__relay_turn() is to follow. */
int zero__relay_start(struct zero_runtime *rt, uint32_t queue, struct slot *s,
                      const struct zero_coll *colls, uint32_t n);
/* Moves what is under way on; > 0: something moved. */
int zero__relay_turn(struct zero_runtime *rt);
/* The transport is through with a piece. */
int zero__relay_came(struct zero_runtime *rt, uint32_t queue, uint32_t piece);
/* Bytes of the gather under way that this rank has not sent. */
uint64_t zero__relay_left(const struct zero_runtime *rt);

#endif
