/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: the queues of the program as it runs. Ordinals count ops of a lane since the start;
 * issued >= started >= done, and ops of a lane are done in order. A body's waits are relative to
 * the lanes' `base`, the ordinals at which the body began.
 */
#ifndef ZERO_ENGINE_LANE_H
#define ZERO_ENGINE_LANE_H

#include <zero/comm.h>
#include <zero/device.h>
#include <zero/offload.h>

#include "schedule/program.h"

struct zero_runtime;

struct slot {
    const struct zero__body *body; /* NULL: a collective of the runtime itself, or its request */
    uint32_t op, body_kind;
    uint64_t waits[ZERO__N_QUEUES]; /* ordinals that must be done */
    union {
        struct zero_coll coll;
        struct zero_io io;
    } own;             /* without a body, by the lane */
    uint32_t pending;  /* completions still to come */
    uint32_t n_posted; /* requests that the store has taken */
    uint32_t in_store; /* of these, a bit each: those that have not ended */
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

struct lane {
    const struct zero_device_ops *ops; /* of the device that its stream and events are of */
    struct zero_device *dev;
    struct slot *slots;
    uint32_t capacity; /* a power of two */
    uint64_t issued, started, done, base;
    void *stream; /* of the device; NULL: the host starts ops one by one, and hears of their ends */
    struct zero_comm *comm; /* transports' lanes */
    uint64_t sequence;
    int64_t ended_ns; /* of a stream: the last op that is done */
};

/* What a completion says: whose it is. The piece is the relay's, or a request's of a store. */
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

/* ---- lane.c */

void zero__lanes_create(struct zero_runtime *rt);
void zero__lanes_free(struct zero_runtime *rt);
/* When the job's thread, which wakes who waits, has ended. */
void zero__lanes_end(struct zero_runtime *rt);
/* Room for the ops of the programs; no op is in flight. */
int zero__lanes_size(struct zero_runtime *rt);
/* Remembers where the lanes stand as the beginning of a body. Lock held. */
void zero__lanes_mark(struct zero_runtime *rt);
/* The slot of an ordinal. */
struct slot *zero__lane_slot(struct lane *l, uint64_t ordinal);
/* In sentences: the unit of its op, or the runtime. */
const char *zero__slot_subject(const struct zero_runtime *rt, const struct slot *s);
/* Appends an op of the current body to its lane; the lock is held. */
int zero__lane_issue(struct zero_runtime *rt, uint32_t op);
/* The ordinals that an op of the body that runs waits for. */
void zero__waits_of(const struct zero_runtime *rt, const struct zero__op *op,
                    uint64_t waits[ZERO__N_QUEUES]);
/* Runs a collective or a request of the runtime's own on a lane and waits for it. */
int zero__lane_run(struct zero_runtime *rt, uint32_t queue, const struct slot *own);
/* Are ordinals done, one of every lane? Lock held. */
int zero__lanes_reached(const struct zero_runtime *rt, const uint64_t *ordinals);
/* Waits until they are, or the runtime fails; adds to *waited_ns when it had to. */
int zero__lanes_wait(struct zero_runtime *rt, const uint64_t *ordinals, uint64_t *waited_ns);
/* Of a transport's lane: the op that waits for nothing any more but other ranks, or NULL. */
const struct slot *zero__lane_head(struct lane *l);
/* Notes that the first op under way in a lane has ended; lock held. */
void zero__lane_done(struct zero_runtime *rt, uint32_t queue, int64_t now_ns);
/* The same of all ops whose completions have come, in order; lock held. */
void zero__lane_settle(struct zero_runtime *rt, uint32_t queue);
/* Waits until everything issued is done; but_behind: but for what goes on behind an update. */
int zero__lanes_drain(struct zero_runtime *rt, int but_behind, uint64_t *waited_ns);

/* ---- streams.c: ops that are put on streams before what they wait for is done */

/* Where the transport takes streams: one for each of its lanes. */
int zero__streams_create(struct zero_runtime *rt);
/* There: could the op start now, is all that it waits for done or ordered in streams? Lock held. */
int zero__streams_ready(struct zero_runtime *rt, uint32_t q, const struct slot *s);
/* Lets the lane's stream wait for what is not done yet; lock held. */
int zero__streams_wait(struct zero_runtime *rt, uint32_t q, const struct slot *s);
/* Ops at the heads of their lanes that have nothing to wait for: their time counts. Lock held. */
void zero__streams_arm(struct zero_runtime *rt);
/*
 * Notes what streams have reached: of all lanes that are streams, whatever the transport, and of
 * uses; lock held. Returns how much, or an error; *heard: it is the transport's.
 */
int zero__streams_look(struct zero_runtime *rt, bool *heard);

/* ---- progress.c */

int zero__progress_start(struct zero_runtime *rt);
void zero__progress_stop(struct zero_runtime *rt);
/* The application's thread issued something, or an event was reached. */
void zero__progress_wake(void *rt);
/* Bytes that everything issued so far sends; no collective of the runtime itself is in flight. */
uint64_t zero__wire_bytes(struct zero_runtime *rt);

/* ---- execute.c, kernels.c: start one op. -EAGAIN: no room now. */

int zero__execute(struct zero_runtime *rt, uint32_t queue, struct slot *s);
/* The collectives of an op, but for what numbers them; how many. */
uint32_t zero__collectives(struct zero_runtime *rt, const struct slot *s, struct zero_coll *colls);
/* A collective of the op failed; adds to what the plugin said what it means. Returns err. */
int zero__collective_failed(const struct zero_runtime *rt, const struct slot *s, int err);
int zero__execute_kernels(struct zero_runtime *rt, const struct zero__op *op, struct slot *s);
/*
 * A unit's gradients (or accumulators) become zero: on the device's stream, and where they lie
 * elsewhere, in the host's memory or on the disk, before this returns.
 */
int zero__gradients_zero(struct zero_runtime *rt, uint32_t unit);
/* Address of bytes of a buffer of a body. */
uint8_t *zero__address(struct zero_runtime *rt, const struct zero__body *b, uint32_t buffer,
                       uint64_t off);
/* The same of a home, which is of no body; not of one on the disk. */
uint8_t *zero__home_address(const struct zero_runtime *rt, uint32_t id, uint64_t off);
/* Address of a segment's whole parameters, which lie in `buffer` or are mapped. */
uint8_t *zero__param_address(struct zero_runtime *rt, const struct zero__body *b, uint32_t segment,
                             uint32_t buffer);
/* A slice of a slab. */
struct zero_slice zero__slice(struct zero_runtime *rt, uint32_t slab, uint64_t off, uint64_t len);

#endif
