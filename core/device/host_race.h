/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test mode's race detector. Every stream has a vector clock; recording an event keeps a copy
 * of it, waiting for the event joins that copy into the waiter's. Two accesses that conflict and of
 * which neither clock knows the other are a race, whatever the timing was.
 *
 * Clocks move when an operation is enqueued, for then all that a wait refers to is known. A wait
 * for a flag moves none: whoever writes the flag is unknown here, so it orders nothing. Everything
 * runs under the device's lock, and this mode may allocate.
 */
#ifndef ZERO_DEVICE_HOST_RACE_H
#define ZERO_DEVICE_HOST_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zero/device.h>

#include "device/race_map.h"

struct race;

struct race *race_create(void);
void race_destroy(struct race *r);
/* A stream gets a name, perhaps anew; index < RACE_STREAMS. */
void race_stream(struct race *r, uint32_t stream, const char *name);

void race_launch(struct race *r, uint32_t stream, uint32_t kernel, const void *args);
void race_copy(struct race *r, uint32_t stream, const void *dst, const void *src, uint64_t bytes);
void race_touch(struct race *r, uint32_t stream, const void *base, uint64_t bytes, bool write,
                const char *what);
/* *slot is the clock of the event's last record, allocated by the first: the event's to free. */
void race_record(struct race *r, uint32_t stream, struct race_clock **slot);
void race_wait(struct race *r, uint32_t stream, const struct race_clock *record);
void race_forget(struct race *r, const void *base, uint64_t bytes);

/* Number of pairs of accesses that race, or -ENOMEM if the detector lost count; text names them. */
int race_count(const struct race *r, char *text, size_t n);
uint64_t race_size(const struct race *r);

#endif
