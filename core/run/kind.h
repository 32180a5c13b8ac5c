/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside core/run/: what lanes of a kind do. A lane's kind says which thread serves it, how its ops
 * start and how their ends are learnt; the loop that serves lanes (serve.c) knows nothing else.
 *
 *   kind                  queues                  an op starts by             an op ends by
 *   application           compute                 zero__use_begin()           zero__use_end()
 *   kernels               cpu, update, host       launches on a stream        an event
 *   copies                load, store, return     copies on a stream          an event
 *   transport             gather, reduce          post()                      completions
 *   transport in streams  gather, reduce          post() on a stream          an event
 *   relay                 gather, reduce          copies and posts in pieces  completions, events
 *   store                 fetch, writeback        submit()                    completions
 */
#ifndef ZERO_RUN_KIND_H
#define ZERO_RUN_KIND_H

#include "run/run.h"

struct zero__lane;
struct zero__slot;

/* Threads that start ops. */
enum zero__server_id { ZERO__PROGRESS, ZERO__STORAGE, ZERO__N_SERVERS, ZERO__NO_SERVER };

/* All functions are called with the lock held. */
struct zero__lane_kind {
    uint8_t server;     /* enum zero__server_id */
    uint8_t collective; /* its ops are alike on all ranks: they have places and are numbered */
    uint8_t in_pieces;  /* an op goes in pieces, whose number its start decides */
    uint8_t by_event;   /* an op ends when its slot's event is reached */
    /*
     * Starts the lane's next op, whose waits are over: 0, or an error. -EAGAIN: there is no room
     * now, and the thread wakes when there is; -EBUSY: nothing tells when there is; -EINPROGRESS:
     * completions let it go on. May release the lock meanwhile.
     */
    int (*start)(struct zero__runner *run, uint32_t queue, struct zero__slot *s);
    /* Notes ops that have ended: how many, or an error. NULL: only completions tell. */
    int (*poll)(struct zero__runner *run, uint32_t queue);
    /* A completion that bears the lane's number has come. NULL: none can. */
    int (*complete)(struct zero__runner *run, uint32_t queue, const struct zero_cqe *c);
    /* Bytes of an op under way that this rank has not sent, to each peer. Collectives alone. */
    uint64_t (*unsent)(const struct zero__runner *run, const struct zero__slot *s);
};
extern const struct zero__lane_kind zero__kind_application, zero__kind_kernels, zero__kind_copies,
    zero__kind_transport, zero__kind_transport_streams, zero__kind_relay, zero__kind_store;

/* How ops wait for each other: done in the eyes of the host, or ordered in the device's streams. */
struct zero__ordering {
    /* All that the op waits for is done, or ordered. */
    int (*is_ready)(const struct zero__runner *run, uint32_t queue, const struct zero__slot *s);
    /* Lets the lane's stream wait for what is not done yet; once for each op. */
    int (*follow)(struct zero__runner *run, uint32_t queue, const struct zero__slot *s);
    /* Polls all lanes. *heard: the error that is returned is the transport's. */
    int (*look)(struct zero__runner *run, bool *heard);
    /* Starts the deadlines of ops that head their lanes and have nothing more to wait for. */
    void (*arm)(struct zero__runner *run);
    uint8_t cascades; /* an op that has started may let others start, before it ends */
};
extern const struct zero__ordering zero__by_host, zero__by_streams;

/* Polls the lanes of all kinds, in order. */
int zero__lanes_poll(struct zero__runner *run);
/* An op that is about to start: what it waits for is ordered, its time runs. */
int zero__op_begin(struct zero__runner *run, uint32_t queue, struct zero__slot *s);

#endif
