/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a rank waits for others: some empty turns, then turns between which it gives its core to
 * whoever wants it, then sleep. Sleeping costs the time to be woken, tens of microseconds, in a
 * virtual machine milliseconds; so a rank that waits for a collective sleeps late where it keeps
 * nobody from working. Where it does, yields take long: then it sleeps soon, since who wakes it
 * puts it in front, and tries again later.
 */
#ifndef ZERO_PLUGINS_COMMON_IDLE_H
#define ZERO_PLUGINS_COMMON_IDLE_H

#include <sched.h>
#include <stdbool.h>

#include "machine/clock.h"

#define ZERO__IDLE_SPINS 32                          /* a few microseconds */
#define ZERO__IDLE_SPINS_SHARED 1                    /* who is waited for may want this core */
#define ZERO__IDLE_YIELDS 64                         /* soon */
#define ZERO__IDLE_YIELD_NS (ZERO_SECOND / 1000)    /* late */
#define ZERO__IDLE_CROWD_NS (ZERO_SECOND / 20000)   /* a yield that takes longer: others work */
#define ZERO__IDLE_CROWDED_NS (ZERO_SECOND / 100)

/* Of a thread that waits; zeroes are a beginning. */
struct zero__idle {
    bool shared;    /* here are more ranks than processors that they may use */
    unsigned turns; /* empty ones, in a row */
    int64_t since_ns, crowded_ns; /* since the first yield; until when others want the core */
};

/* Before each wait. */
static inline void zero__idle_begin(struct zero__idle *i)
{
    i->turns = 0;
}

static inline unsigned zero__idle_most(const struct zero__idle *i)
{
    return i->shared ? ZERO__IDLE_SPINS_SHARED : ZERO__IDLE_SPINS;
}

/* A turn is over. True while the next one is to follow at once. */
static inline bool zero__idle_spins(struct zero__idle *i, bool news)
{
    i->turns = news ? 0 : i->turns + 1;
    if (i->turns > zero__idle_most(i))
        return false;
#if defined(__x86_64__)
    if (!news)
        __builtin_ia32_pause();
#endif
    return true;
}

/* Yields, or says that it is time to sleep. `waits`: for a collective that is under way. */
static inline bool zero__idle_sleeps(struct zero__idle *i, int64_t now_ns, bool waits)
{
    if (i->turns == zero__idle_most(i) + 1)
        i->since_ns = now_ns;
    if (waits && now_ns >= i->crowded_ns ? now_ns - i->since_ns >= ZERO__IDLE_YIELD_NS
                                         : i->turns > zero__idle_most(i) + ZERO__IDLE_YIELDS)
        return true;
    sched_yield();
    int64_t after_ns = zero__now_ns();
    if (after_ns - now_ns >= ZERO__IDLE_CROWD_NS)
        i->crowded_ns = after_ns + ZERO__IDLE_CROWDED_NS;
    return false;
}

#endif
