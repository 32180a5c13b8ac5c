/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bell that threads of any process ring and one thread sleeps at; it lies in shared memory.
 *
 * Who rings has published something before; who sleeps announces itself, looks once more, and
 * sleeps only if there is still nothing. All of it is sequentially consistent, so that one of the
 * two always sees the other. Ringing costs a load while nobody sleeps.
 */
#ifndef ZERO_PLUGINS_COMMON_BELL_H
#define ZERO_PLUGINS_COMMON_BELL_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "machine/clock.h"

struct zero__bell {
    _Atomic uint32_t count;
    _Atomic uint32_t asleep;
};

static inline void zero__bell_ring(struct zero__bell *b)
{
    if (!atomic_load(&b->asleep))
        return;
    atomic_fetch_add(&b->count, 1);
    syscall(SYS_futex, &b->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Announces the sleeper; what it waits for is to be looked at again afterwards. */
static inline uint32_t zero__bell_announce(struct zero__bell *b)
{
    atomic_store(&b->asleep, 1);
    return atomic_load(&b->count);
}

/* Sleeps until somebody rings after announce() returned `seen`, or `until`. May return early. */
static inline void zero__bell_sleep(struct zero__bell *b, uint32_t seen, int64_t until)
{
    int64_t left = until - zero__now_ns();
    struct timespec t = {.tv_sec = left / ZERO_SECOND, .tv_nsec = left % ZERO_SECOND};

    if (left > 0)
        syscall(SYS_futex, &b->count, FUTEX_WAIT, seen, &t, NULL, 0);
}

static inline void zero__bell_leave(struct zero__bell *b)
{
    atomic_store(&b->asleep, 0);
}

#endif
