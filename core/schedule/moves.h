/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of homes outside the device, brought into buffers of the device and back. What lies on the
 * disk passes through a transient of the host, in whole pages, which is what disks want.
 */
#ifndef ZERO_SCHEDULE_MOVES_H
#define ZERO_SCHEDULE_MOVES_H

#include "schedule/body.h"

/* Bytes of a segment's home, and their place in a buffer of the device. */
struct zero__move {
    uint32_t segment, home, buffer;
    uint64_t home_off, buffer_off, bytes;
};

/* At most one of each segment of a unit. */
struct zero__moves {
    uint32_t unit, n, flags; /* flags: of a load's ops */
    struct zero__move list[ZERO_MAX_SEGMENTS_PER_UNIT];
    uint32_t host[ZERO_MAX_SEGMENTS_PER_UNIT]; /* of each: what it passes through, or ZERO_NONE */
};

/* Adds one, if the home lies outside the device. */
void zero__moves_add(const struct zero__states *s, struct zero__moves *moves,
                     const struct zero__move *x);

/* From the homes: a fetch, a copy. Buffers that start here start with the copy. */
void zero__moves_load(const struct zero__states *s, struct zero__moves *moves,
                      struct zero__body *b);
/*
 * To the homes: a copy, a writeback. What it passes through stays until zero__moves_free(), so that
 * whoever wants the room waits, and not the next store. On a disk the bytes around an end that is
 * no multiple of pages are written, too: buffer and home are laid out alike.
 */
void zero__moves_store(const struct zero__states *s, struct zero__moves *moves,
                       struct zero__body *b);
void zero__moves_free(struct zero__moves *moves, uint32_t *marked, struct zero__body *b);

/* Appends a transient of the host; returns its id. */
uint32_t zero__host_buffer(struct zero__body *b, uint32_t memory_class, uint32_t segment,
                           uint64_t bytes);

#endif
