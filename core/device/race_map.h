/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who touched which bytes last: disjoint ranges of addresses, each with its last write and the
 * reads since that no later read or write of the range is ordered after. So the map grows with the
 * number of buffers, not with time: what is ordered after all earlier accesses replaces them.
 */
#ifndef ZERO_DEVICE_RACE_MAP_H
#define ZERO_DEVICE_RACE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define RACE_STREAMS 96u

/* How far each stream is known to have got. */
struct race_clock {
    uint64_t at[RACE_STREAMS];
};

/* An access by a stream at its own time; time 0: none. */
struct race_access {
    uint32_t stream, what; /* what: an interned name */
    uint64_t time;
};

struct race_map;

struct race_map *race_map_create(void);
void race_map_destroy(struct race_map *map);

/* Two accesses that nothing orders, and where. */
typedef void race_report_fn(void *arg, const struct race_access *old, bool old_write,
                            const struct race_access *now, bool now_write, uint64_t low,
                            uint64_t high);

/*
 * Enters an access of [low, high) by a stream whose clock is `clock`, after reporting each earlier
 * access that conflicts with it and is not ordered before it. -ENOMEM.
 */
int race_map_access(struct race_map *map, uint64_t low, uint64_t high, struct race_access now,
                    bool write, const struct race_clock *clock, race_report_fn *report, void *arg);

/* Forgets [low, high): the memory was given back. */
int race_map_forget(struct race_map *map, uint64_t low, uint64_t high);

/* Ranges and reads that are kept, for tests of the bound. */
uint64_t race_map_size(const struct race_map *map);

#endif
