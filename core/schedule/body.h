/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing a body op by op, for the emit passes. Only memory can be lacking: the function that finds
 * none says so and sets b->err. From then on nothing is appended, and the entry points of the
 * passes return that error at their end; zero__body_free() alone forgets it.
 */
#ifndef ZERO_SCHEDULE_BODY_H
#define ZERO_SCHEDULE_BODY_H

#include "schedule/program.h"

void zero__body_op(struct zero__body *b, const struct zero__op *op);
/* Of the last op; a pair is what it reads and what it writes for that. */
void zero__body_access(struct zero__body *b, uint32_t buffer, uint32_t segment, uint32_t role,
                       int write, uint64_t off, uint64_t bytes);
void zero__body_pair(struct zero__body *b, uint32_t segment, uint32_t from, uint64_t from_off,
                     uint64_t from_bytes, uint32_t to, uint64_t to_off, uint64_t to_bytes);
/* Appends a transient of the device; returns its id. */
uint32_t zero__body_buffer(struct zero__body *b, uint32_t memory_class, uint32_t segment,
                           uint32_t declared, uint64_t bytes);
/*
 * A transient by its id, until the next one is appended. After an error what it says of it is not
 * so, and nothing that counts may be decided by it.
 */
struct zero__buffer *zero__body_at(struct zero__body *b, uint32_t id);

/* Ends a transient at the marker at index *marked, which is appended if it is not there. */
void zero__body_end(struct zero__body *b, uint32_t *marked, uint32_t unit, uint32_t id);

#endif
