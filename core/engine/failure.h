/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told when a job fails: the last ops and collectives of each rank, who is waited for in
 * what, and the file that keeps it.
 */
#ifndef ZERO_ENGINE_FAILURE_H
#define ZERO_ENGINE_FAILURE_H

#include <stdatomic.h>

#include <zero/comm.h>

#include "schedule/program.h"

struct slot;
struct zero__job_params;
struct zero_runtime;

/* ---- flight.c */

#define ZERO__FLIGHT_KEPT 1024u /* a power of two */
struct flight_op {
    uint64_t ordinal, sequence; /* sequence: of the first collective, 0: none */
    int64_t start_ns, end_ns;
    uint32_t n, kind, unit, queue;
};
/* A collective as this rank posted it: what must be the same on all ranks. Hashed: no padding. */
struct flight_coll {
    uint64_t sequence, count;
    uint32_t queue, kind, flags, src_dtype, dst_dtype, redop, epoch, scale_bits;
    int32_t root;
    uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct flight_coll) == 56, "no padding");
struct flight {
    struct flight_op *ring;    /* NULL: before commit, as is colls */
    uint64_t end, lost; /* ops, ever; what stood in the ring before others that do not count */
    struct flight_coll *colls; /* a ring, too: what was posted, of all queues */
    uint64_t n_colls;          /* ever */
    atomic_uint_fast64_t now;  /* what the transport is at, see flight.c; 0: nothing */
    /* The call in which the application's thread waits for all ranks in zero_sum(), or has failed
     * there; since when; how many there were. NULL: it does not. */
    const char *control;
    int64_t control_ns;
    uint64_t n_control;
};
int zero__flight_create(struct zero_runtime *rt);
void zero__flight_free(struct zero_runtime *rt);
struct flight_op zero__flight_op(const struct slot *s, uint32_t queue, uint64_t ordinal,
                                 int64_t end_ns);
/* An op is over; lock held. */
void zero__flight_note(struct zero_runtime *rt, const struct slot *s, uint32_t queue,
                       uint64_t ordinal, int64_t end_ns);
/* Notes what other ranks are waited for in; the progress thread, before it sleeps, lock held. */
void zero__flight_waits(struct zero_runtime *rt);

/* Says what the transport is at, "gather of layer1 (#12)", or ""; any thread, never blocks. For
 * zero__job_on_lost(). */
void zero__flight_say(void *rt, char *text, size_t room);
struct flight_coll zero__flight_coll(uint32_t queue, const struct zero_coll *c);
/* A collective was posted: for reports, and for history.c; lock held. */
void zero__flight_posted(struct zero_runtime *rt, uint32_t queue, const struct zero_coll *c);

/* ---- calls.c */

/* zero_sum() as a part of that call of the API, by which a report knows it while it waits. */
int zero__sum(struct zero_runtime *rt, const char *call, double *values, uint32_t n);

/* ---- doubt.c, by the progress thread; moved: an op may just have ended. */

void zero__doubt_begin(struct zero_runtime *rt);
void zero__doubt(struct zero_runtime *rt, int moved);

/* ---- crash.c */

/* Which job it is, before this rank looks for the others; then its number, if it has heard it. */
void zero__crash_begin(struct zero_runtime *rt, const struct zero__job_params *p);
void zero__crash_number(struct zero_runtime *rt, uint64_t number);
/* Could a report be written? */
int zero__crash_check(struct zero_runtime *rt);
/*
 * The progress thread has heard that ranks posted different collectives. Where reports are wanted,
 * the application's thread gets a moment to come to its own: who is alone is told by those of all.
 */
void zero__crash_linger(const struct zero_runtime *rt);
/* After an error: a report goes to a file, once. Not with the lock held. */
void zero__crash_report(struct zero_runtime *rt);

/* ---- history.c; without a history they do nothing */

int zero__history_create(struct zero_runtime *rt);
void zero__history_free(struct zero_runtime *rt);
/* This rank has posted a collective. */
void zero__history_note(struct zero_runtime *rt, const struct flight_coll *c);
/* Collective, before an update and after an evaluation: have all ranks posted the same? */
int zero__history_compare(struct zero_runtime *rt);

/* ---- track.c: test mode; without it they do nothing */

int zero__track_create(struct zero_runtime *rt);
/* After the lanes have their size. */
int zero__track_size(struct zero_runtime *rt);
void zero__track_free(struct zero_runtime *rt);
/* The op of that ordinal starts now, after its waits. */
void zero__track_start(struct zero_runtime *rt, uint32_t q, const struct slot *s, uint64_t ordinal);
/* How much the host has seen, for an op that it issues now. */
uint32_t zero__track_mark(const struct zero_runtime *rt);
/* The host has seen everything issued done, or all but what goes on behind an update. */
void zero__track_host(struct zero_runtime *rt, int but_behind);
/* The use that was acquired goes on in a stream of the application; it is released there. */
void zero__track_acquired(struct zero_runtime *rt, void *stream);
void zero__track_released(struct zero_runtime *rt, void *stream);

#endif
