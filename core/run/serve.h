/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/run/: the threads that serve lanes. */
#ifndef ZERO_RUN_SERVE_H
#define ZERO_RUN_SERVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "run/kind.h"

/* The rank to blame for an error, as far as this rank can tell; -1: it cannot. */
struct zero__blame {
    int culprit;
    uint32_t place; /* of the op whose deadline has passed, as the job hears it; 0: of none */
    bool heard;     /* from the transport: it may follow from a peer's end, whatever it is called */
};

/* Duties of a thread beside its lanes. The lock is not held, unless a comment says so. */
struct zero__server_kind {
    const char *name;     /* "progress": of the thread, in sentences */
    uint8_t in_transport; /* it sleeps in the transport, from which it may never return */
    /* The job may have failed: ends the runtime, and says so. */
    int (*is_over)(struct zero__runner *run);
    /* Polls lanes whose ops end by events, lock held: how many ended, or an error. *heard: the
     * error is the transport's. NULL: completions alone tell of its lanes. */
    int (*look)(struct zero__runner *run, bool *heard);
    /* Before the thread sleeps, lock held; n: ops that have started in this turn. */
    int (*prepare)(struct zero__runner *run, int n);
    /* Longest sleep, ns. */
    int64_t (*idle_ns)(struct zero__runner *run);
    /* Sleeps until something ends: completions, how many, or an error. */
    int (*sleep)(struct zero__runner *run, struct zero_cqe *cqes, uint32_t max, int64_t wait_ns);
    void (*wake)(struct zero__runner *run);
    /* Completions were noted, lock held: counts what they have moved. */
    int (*account)(struct zero__runner *run);
    /* A completion names no op in flight: the error. */
    int (*stray)(struct zero__runner *run, const struct zero_cqe *c);
    /* No completion has come: -ETIMEDOUT if an op has waited too long. */
    int (*late)(struct zero__runner *run, struct zero__blame *blame);
    /* At the end of a turn; moved: an op may have ended. */
    void (*rest)(struct zero__runner *run, int moved);
    /* The thread has met an error, which ends the runtime. */
    void (*fail)(struct zero__runner *run, int err, struct zero__blame *blame);
};
extern const struct zero__server_kind zero__progress_kind, zero__storage_kind;

struct zero__server {
    struct zero__runner *run;
    const struct zero__server_kind *kind;
    enum zero__server_id id;
    pthread_t thread;
    atomic_int number; /* kernel's number of the thread, 0: not started yet */
    atomic_int is_on;  /* devices' threads read it, too */
    int stops;         /* lock held */
    atomic_int waits;  /* an op of its lanes has not started: it wants to hear of what is done */
};

int zero__server_start(struct zero__runner *run, enum zero__server_id id);
/* The thread may be inside a plugin: wake it, then join. */
void zero__server_stop(struct zero__runner *run, enum zero__server_id id);
/* Wakes the servers whose lanes have ops that have not started; any thread. */
void zero__servers_wake(struct zero__runner *run);
void zero__server_wake(struct zero__runner *run, enum zero__server_id id);

#endif
