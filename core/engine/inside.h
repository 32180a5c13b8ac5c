/* SPDX-License-Identifier: Apache-2.0 */
/* Which thread is inside of the transport, and whether it will ever come back; see inside.c. */
#ifndef ZERO_ENGINE_INSIDE_H
#define ZERO_ENGINE_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/* Of its own memory: who watches the end of a runtime looks at it when that is gone. */
struct zero__inside {
    atomic_int thread; /* its number with the kernel, 0: nobody is inside */
    atomic_uint n;     /* another number: something has begun or ended since */
    atomic_int job_ends; /* somebody has begun to end the job */
    struct zero__log_gate gate; /* of the runtime's log */
};

/*
 * A call begins (thread 0: of this thread; else that one is waited for), and has ended. Calls nest:
 * the end wants to know who was inside before, as the beginning said.
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
/* To be asked again and again: has the thread been computing in one call for too long? */
bool zero__inside_is_stuck(void *watch);

struct zero_runtime;

/*
 * fn(rt, arg) in a thread of its own: its result and sentence, or that `who`, the plugin, said
 * none. When the job has failed and it does not return: the job's error; then nobody may enter the
 * transport again, and nothing that it may use is freed (`left` of the runtime). who and arg have
 * to live as long as the runtime.
 */
int zero__inside_call(struct zero_runtime *rt, const char *who,
                      int (*fn)(struct zero_runtime *rt, void *arg), void *arg);

#endif
