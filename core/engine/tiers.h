/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where bytes are: slabs of memory that are reserved as one, the tiers beside the device that
 * offload plugins serve, and ways for the application's thread to reach either.
 */
#ifndef ZERO_ENGINE_TIERS_H
#define ZERO_ENGINE_TIERS_H

#include <zero/comm.h>
#include <zero/offload.h>

#include "schedule/program.h"

struct zero_runtime;

/* A range of a tier that was reserved as one. */
struct slab {
    uint8_t *base;
    uint64_t bytes;
    struct zero_mr *mr;
    int from_comm; /* the context allocated it */
    int pinned;    /* of the host: the device knows it */
};
enum { SLAB_STATES, SLAB_TRANSIENTS }; /* the device's by name, see zero__slab() */

/* A tier beside the device, served by an offload plugin; of the device's own the name alone. */
struct tier {
    const char *name; /* of the plugin; NULL: nothing lies there */
    struct zero_offload_ops ops;
    struct zero_store *store;
    struct zero_store_info info;
    struct zero_mr *mr; /* disk: the memory of the tier cpu from here on: states before it */
    uint64_t mr_first;  /* are what no request moves */
};

/* Of an update outside the device that are read, updated or written; tests: ZERO_TEST_TILES. */
#define ZERO__TILES 8u
#define ZERO__MOST_IOS 16u /* requests of one op at a time: places in a tag, see zero__user() */
/* How long to wait with a store that has no room now: it may not say when it has. */
#define ZERO__STORE_FULL_NS INT64_C(1000000)
#define ZERO__STORE_POLL_NS INT64_C(250000000) /* at most in one call */

/* Of one request, in whole pages: at least one, see tiers.c. */
static inline uint64_t zero__io_most(const struct zero_store_info *info)
{
    return info->max_io - info->max_io % ZERO_BUFFER_ALIGN;
}

/* ---- memory.c */

int zero__memory_reserve(struct zero_runtime *rt);
/* For a new program, while nothing is under way. */
int zero__memory_grow(struct zero_runtime *rt);
/* Collective: maps what the recipe says, before the progress thread runs. */
int zero__memory_map(struct zero_runtime *rt);
/* Gives back what came from the device, before it closes; then the rest. */
void zero__memory_release(struct zero_runtime *rt, int of_device);

/* ---- fits.c */

/* device, extra: what is to be had in addition, of the device and of the host. */
int zero__memory_fits(struct zero_runtime *rt, uint64_t device, uint64_t extra);
/* Of the disk, that a rank may fill. */
uint64_t zero__disk_room(const struct zero_runtime *rt);
/* What lies there takes the host's memory. */
int zero__disk_is_host(const struct zero_runtime *rt);
/* Of the host's memory, for what the program has on the disk. */
uint64_t zero__checksum_bytes(const struct zero_runtime *rt);

/* ---- tiers.c */

/* The plugins of ZERO_OFFLOAD, and what it places where. */
int zero__tiers_load(struct zero_runtime *rt);
/* As if it were ZERO_OFFLOAD=auto: what cannot be used is left out. */
void zero__tiers_try(struct zero_runtime *rt);
/* The user has set an option of the plugin's own. */
int zero__tier_is_set(const struct zero_runtime *rt, const char *name);
/* A store of the tier's plugin; a trial is another one than the job's, and warns of nothing. */
int zero__store_open(struct zero_runtime *rt, struct tier *t, uint64_t bytes, int is_trial);
/* Of the host's memory, that a store of so many bytes takes for itself: checksums. */
uint64_t zero__disk_beside(uint32_t bytes_per_mib, uint64_t bytes);

/* ---- slabs.c */

/* Reserves what the program needs in the tiers. */
int zero__tiers_open(struct zero_runtime *rt);
/* Before the device closes. */
void zero__tiers_unpin(struct zero_runtime *rt);
void zero__tiers_close(struct zero_runtime *rt);
/* More room for transients of the host, while nothing is under way. */
int zero__cpu_grow(struct zero_runtime *rt, uint64_t transient_bytes);
/* Room on the disk for the program that is now the first one, while nothing is under way. */
int zero__disk_grow(struct zero_runtime *rt);

/* ---- store_call.c */

/* Calls of a store that somebody watches: how many requests it took or has ended, or an error. */
int zero__store_submit(struct zero_runtime *rt, const struct tier *t, const struct zero_io *ios,
                       uint32_t n);
int zero__store_poll(struct zero_runtime *rt, const struct tier *t, struct zero_cqe *cqes,
                     uint32_t max, int64_t wait_ns);
/* Of one who waits: the call that was under way at the last look, and for how long it has been. */
struct zero__store_watch {
    int64_t since_ns, looked_ns, seen_ns;
};
/* To be asked again and again: has such a call lasted longer than ZERO_TIMEOUT? An error, or 0. */
int zero__store_stuck(struct zero_runtime *rt, struct zero__store_watch *watch);
/*
 * fn(arg), which makes such calls, in a thread of its own on a copy of the `bytes` at arg. Too
 * late: an error, `left` of the runtime, and arg is untouched. All that fn uses lives as long as
 * the runtime, or is never freed then.
 */
int zero__store_call(struct zero_runtime *rt, int (*fn)(void *arg), void *arg, size_t bytes);
/* The plugin's calls in that way. Of a store whose resize() is too late t->store is gone. */
int zero__store_probe(struct zero_runtime *rt, const char *name,
                      const struct zero_offload_ops *ops, struct zero_store_info *info);
int zero__store_make(struct zero_runtime *rt, struct tier *t,
                     const struct zero_store_open *params);
int zero__store_resize(struct zero_runtime *rt, struct tier *t, uint64_t bytes);

/* ---- storage.c */

/* Where there is a disk; else these do nothing. */
int zero__storage_start(struct zero_runtime *rt);
void zero__storage_stop(struct zero_runtime *rt);
/* Adds what the body that begins moves to and from the disk. */
void zero__storage_count(struct zero_runtime *rt);
void zero__storage_wake(struct zero_runtime *rt);
/* Of a buffer of the tier cpu, in the memory that is registered with the disk. */
uint64_t zero__place_in_memory(const struct zero_runtime *rt, const struct zero__buffer *f);

/* ---- storage_bounce.c */

/* Bytes of a home on the disk, for the application's thread while no step runs. */
int zero__storage_read(struct zero_runtime *rt, uint32_t home, uint64_t off, uint64_t bytes,
                       void *to);
int zero__storage_write(struct zero_runtime *rt, uint32_t home, uint64_t off, uint64_t bytes,
                        const void *from);
/* The same of a transient buffer at `off` in its slab; one of to, from is NULL. */
int zero__storage_move(struct zero_runtime *rt, uint64_t off, uint64_t bytes, void *to,
                       const void *from);

/* ---- reach.c */

/* Of the application's thread: bytes of the device that nothing else works on. They block. */
int zero__reach_open(struct zero_runtime *rt);
void zero__reach_close(struct zero_runtime *rt);
/* Behind what a stream computes of a step's scalars: what zero__reach_scalars() gives then. */
int zero__reach_follow(struct zero_runtime *rt, const struct zero_scalars *scalars, void *stream);
/* When that stream is done. */
struct zero_scalars zero__reach_scalars(const struct zero_runtime *rt);
int zero__device_read(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes);
int zero__device_write(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes);
/* The same from anywhere to anywhere; fast only where the device can reach both. */
int zero__device_copy(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes);

#endif
