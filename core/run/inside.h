/* SPDX-License-Identifier: Apache-2.0 */
/* Which thread is inside the transport, and whether it will ever return; see inside.c. */
#ifndef ZERO_RUN_INSIDE_H
#define ZERO_RUN_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/* Heap-allocated: read after the runtime is freed, by the thread that watches its end. */
struct zero__inside {
    atomic_int thread;          /* kernel's number of the thread in the transport, 0: none */
    atomic_uint n;              /* generation counter of calls that begin or end */
    atomic_int job_ends;        /* a thread has begun to end the job */
    struct zero__log_gate gate; /* of the runtime's log */
};

/*
 * A call into the transport begins, made by this thread (0) or by another one that this thread
 * waits for; and has ended. Calls nest: begin returns the thread before, which end restores.
 */
int zero__inside_begin(struct zero__inside *in, int thread);
void zero__inside_end(struct zero__inside *in, int before);

struct zero__inside_watch {
    struct zero__inside *in;
    int64_t spin_ns, computed_ns;
    unsigned n;
};

/* clean: nothing has failed, so plugins may wait for their peers for some time. */
void zero__inside_watch(struct zero__inside_watch *w, struct zero__inside *in, bool clean);
/* Polled: has the thread computed in one call for too long? */
bool zero__inside_is_stuck(void *watch);

#endif
