/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: the queues of the program as it runs. Ordinals count the ops of a lane since the start;
 * issued >= started >= done, and ops of a lane are done in order. A body's waits are relative to
 * the lanes' `base`, the ordinals at which the body began.
 */
#ifndef ZERO_RUN_LANE_H
#define ZERO_RUN_LANE_H

#include "run/kind.h"
#include "run/run.h"

/* An op in a lane, from issue to done. */
struct zero__slot {
    const struct zero__body *body; /* NULL: a collective or request of the runtime itself */
    uint32_t op, body_kind;
    uint64_t waits[ZERO__N_QUEUES]; /* ordinals that must be done */
    union {
        struct zero_coll coll;
        struct zero_io io;
    } own;             /* without a body, by the lane */
    uint32_t pending;  /* completions still to come */
    uint32_t n_posted; /* requests that the store has taken */
    uint32_t in_store; /* of these, a bit each: those that have not ended */
    uint32_t epoch;    /* of a norm */
    uint32_t micro;    /* as in struct zero__issuing, and `ended` */
    int ended;
    uint64_t sequence; /* of its first collective, 0: it has none */
    uint64_t place;    /* among all ops of the transport's lanes, alike on all ranks, from 1 */
    uint32_t n_colls;
    int accumulate; /* REDUCE, ACCUMULATE, loads of sums: there is something to add to */
    int released;   /* COMPUTE */
    int64_t start_ns, deadline_ns;
    void *event; /* of lanes that are streams, and COMPUTE on a stream */
    int on_stream;
    uint32_t mark; /* tests: see zero__track_mark() */
    int follows;   /* its stream waits already for what is before it */
    int armed;     /* of a stream: its waits are over, start_ns and deadline_ns count */
};

/* Ops on the device's stream: more would only fill it, and a launch into a full one waits. */
#define ZERO__LAUNCHED_MOST 64u
#define ZERO__MOST_IOS 16u /* requests of one op in flight: pieces of a tag, see zero__user() */

struct zero__lane {
    const struct zero__lane_kind *kind;
    const struct zero_device_ops *ops; /* of the device of its stream and events */
    struct zero_device *dev;
    struct zero__slot *slots;
    uint32_t capacity; /* a power of two */
    uint64_t issued, started, done, base;
    void *stream; /* of the device; NULL: the host starts ops one by one, and learns their ends */
    struct zero_comm *comm; /* transports' lanes */
    uint64_t sequence;
    int64_t ended_ns; /* of a stream: the last op that is done */
};

/* Tags of completions: queue and ordinal of the op, and the piece of a relay or of a request. */
_Static_assert(ZERO__N_QUEUES <= 16, "a tag has four bits for the queue");
static inline uint64_t zero__user(uint32_t queue, uint64_t ordinal, uint32_t piece)
{
    return ordinal << 8 | piece << 4 | queue;
}
static inline uint64_t zero__user_queue(uint64_t user)
{
    return user & 0xf;
}
static inline uint32_t zero__user_piece(uint64_t user)
{
    return user >> 4 & 0xf;
}
static inline uint64_t zero__user_ordinal(uint64_t user)
{
    return user >> 8;
}

/* ---- lane.c, ring.c: rings of issued ops. The lock is held, except while nothing is in flight. */

/* Room for the ops of the programs; no op is in flight. */
int zero__lanes_size(struct zero__runner *run);
void zero__lane_slots_free(struct zero__lane *l);
/* The slot of an ordinal. */
struct zero__slot *zero__lane_slot(const struct zero__lane *l, uint64_t ordinal);
/* The op of a transport's lane that waits for nothing but other ranks, or NULL. */
const struct zero__slot *zero__lane_head(const struct zero__lane *l);
/* The ordinals are done, one of every lane. */
int zero__lanes_reached(const struct zero__runner *run, const uint64_t *ordinals);
/* Notes that the first op in flight of a lane has ended. */
void zero__lane_done(struct zero__runner *run, uint32_t queue, int64_t now_ns);
/* Notes all ops whose completions have come, in order. */
void zero__lane_settle(struct zero__runner *run, uint32_t queue);
/* For sentences: the unit of an op, or "the runtime". */
const char *zero__slot_subject(const struct zero__runner *run, const struct zero__slot *s);

/* ---- issue.c */

/* Appends an op to its lane; lock held. */
int zero__lane_issue(struct zero__runner *run, const struct zero__issuing *now, uint32_t op);

/* ---- wait.c */

/* Waits until ordinals are done, one of every lane, or the runtime fails. */
int zero__lanes_wait(struct zero__runner *run, const uint64_t *ordinals, uint64_t *waited_ns);

/* ---- own.c */

/* Runs a request on one of the disk's lanes and waits for it. */
int zero__io_run(struct zero__runner *run, uint32_t queue, const struct zero_io *io);

/* ---- events.c */

/* Polls a lane that is a stream of the device: notes what the stream has reached. */
int zero__stream_poll(struct zero__runner *run, uint32_t queue);
/* Notes the end of the lane's first op under way if its event is reached: 1, 0 or an error. */
int zero__event_poll(struct zero__runner *run, uint32_t queue);

/* ---- kernels.c */

/* Launches a fill with zeros of what counts as `n` floats from `p` on, of a segment's gradient. */
int zero__zeros_launch(struct zero__runner *run, uint32_t segment, void *p, uint64_t n);

/* ---- colls.c */

/* The collectives of an op, except what numbers them; how many. */
uint32_t zero__collectives(const struct zero__runner *run, const struct zero__slot *s,
                           struct zero_coll *colls);
/* A collective of the op failed; adds what it means to the plugin's sentence. Returns err. */
int zero__collective_failed(const struct zero__runner *run, const struct zero__slot *s, int err);

/* ---- reach.c */

/* Copies a step's scalars behind what the stream computes, for zero__reach_scalars(). */
int zero__reach_follow(struct zero__runner *run, const struct zero_scalars *scalars, void *stream);

/* ---- storage.c, storage_bounce.c, store_call.c */

/* Adds what the body that begins moves to and from the disk. */
void zero__storage_count(struct zero__runner *run, const struct zero__issuing *now);
/* Bytes of a home on the disk, for the application's thread while no step runs. */
int zero__storage_read(struct zero__runner *run, uint32_t home, uint64_t off, uint64_t bytes,
                       void *to);
int zero__storage_write(struct zero__runner *run, uint32_t home, uint64_t off, uint64_t bytes,
                        const void *from);
/* Watchdog state of a waiter: the store call at the last look, and for how long it was seen. */
struct zero__store_watch {
    int64_t since_ns, looked_ns, seen_ns;
};
/* Polled: a store call lasts longer than ZERO_TIMEOUT. An error, or 0. */
int zero__store_stuck(struct zero__runner *run, struct zero__store_watch *watch);

/* ---- times.c */

int zero__times_size(struct zero__runner *run);
void zero__times_free(struct zero__runner *run);
/* An op is over; lock held. */
void zero__times_note(struct zero__runner *run, const struct zero__slot *s, int64_t end_ns);

#endif
