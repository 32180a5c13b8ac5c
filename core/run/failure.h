/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside core/run/: reports of a job that fails. The last ops and collectives of each rank, the op
 * that waits and the ranks it waits for, and the file that keeps them.
 */
#ifndef ZERO_RUN_FAILURE_H
#define ZERO_RUN_FAILURE_H

#include <stdatomic.h>

#include "run/run.h"

struct zero__slot;

/* ---- flight.c */

#define ZERO__FLIGHT_KEPT 1024u /* a power of two */
struct zero__flight_op {
    uint64_t ordinal, sequence; /* sequence: of the first collective, 0: none */
    int64_t start_ns, end_ns;
    uint32_t n, kind, unit, queue;
};
/* A collective as this rank posted it: what must be equal on all ranks. Hashed: no padding. */
struct zero__flight_coll {
    uint64_t sequence, count;
    uint32_t queue, kind, flags, src_dtype, dst_dtype, redop, epoch, scale_bits;
    int32_t root;
    uint32_t reserved; /* 0 */
};
_Static_assert(sizeof(struct zero__flight_coll) == 56, "no padding");
struct zero__flight {
    struct zero__flight_op *ring;    /* NULL: before commit, as is colls */
    uint64_t end, lost;              /* ops, ever; slots that rolled-back ops have overwritten */
    struct zero__flight_coll *colls; /* a ring, too: what was posted, of all queues */
    uint64_t n_colls;                /* ever */
    atomic_uint_fast64_t now;        /* the collective that is waited for, see flight.c; 0: none */
    /* The call in which the application's thread waits for all ranks in zero_sum(), or has failed
     * there; since when; how many there were. NULL: it does not. */
    const char *control;
    int64_t control_ns;
    uint64_t n_control;
};
int zero__flight_create(struct zero__runner *run);
void zero__flight_free(struct zero__runner *run);
struct zero__flight_op zero__flight_op(const struct zero__slot *s, uint32_t queue, uint64_t ordinal,
                                       int64_t end_ns);
/* An op is over; lock held. */
void zero__flight_note(struct zero__runner *run, const struct zero__slot *s, uint32_t queue,
                       uint64_t ordinal, int64_t end_ns);
/* Notes the collective that waits for other ranks; progress thread, before it sleeps, lock held. */
void zero__flight_waits(struct zero__runner *run);
struct zero__flight_coll zero__flight_coll(uint32_t queue, const struct zero_coll *c);

/* ---- posted.c */

/* A collective was posted: for reports, and for history.c; lock held. */
void zero__posted(struct zero__runner *run, uint32_t queue, const struct zero_coll *c);

/* ---- doubt.c */

/* By the progress thread, in every turn. moved: an op may just have ended. */
void zero__doubt(struct zero__runner *run, int moved);

/* ---- crash.c */

struct zero__crash {
    uint64_t number;          /* of the job, 0: rank 0 has not let this rank in */
    char key[384], model[64]; /* of the job */
    int64_t began_ns;         /* time of day */
    int written;
};
/*
 * The progress thread has learnt that ranks posted different collectives. Where reports are wanted,
 * the application's thread gets a moment to reach its own collective, which the report then shows.
 */
void zero__crash_linger(const struct zero__runner *run);

/* ---- history.c; without a history they do nothing */

int zero__history_create(struct zero__runner *run);
void zero__history_free(struct zero__runner *run);
/* This rank has posted a collective. */
void zero__history_note(struct zero__runner *run, const struct zero__flight_coll *c);

/* ---- track.c: test mode; without it they do nothing */

int zero__track_create(struct zero__runner *run);
/* After the lanes have their size. */
int zero__track_size(struct zero__runner *run);
void zero__track_free(struct zero__runner *run);
/* The op of that ordinal starts now, after its waits. */
void zero__track_start(struct zero__runner *run, uint32_t q, const struct zero__slot *s,
                       uint64_t ordinal);
/* How much the host has seen, for an op that it issues now. */
uint32_t zero__track_mark(const struct zero__runner *run);
/* The host has seen everything issued done, or all but what goes on behind an update. */
void zero__track_host(struct zero__runner *run, int but_behind);
/* The use that was begun goes on in a stream of the application; it ends there. */
void zero__track_acquired(struct zero__runner *run, void *stream);
void zero__track_released(struct zero__runner *run, void *stream);

#endif
