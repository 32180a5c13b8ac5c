/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into a transport that may never return. A rank that is killed or stopped while it holds a
 * lock in memory that ranks share, as libfabric has them, leaves its peers spinning inside of their
 * library, which knows no deadline. So the application's thread makes no call itself that may touch
 * other ranks: it waits for a thread that does, and leaves that to itself when the job has failed
 * and the call goes on computing without an end. Time that a thread computes tells it from one that
 * gets little of the machine, or gives much memory back, which is the kernel's time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/clock.h"
#include "run/inside.h"

#define SPIN_NS (3 * ZERO_SECOND / 10)  /* plugins sleep while they wait at an end, */
#define SPIN_CLEAN_NS (3 * ZERO_SECOND) /* or compute for much less than this */

/* The number last, and read first: two threads are never compared. */
int zero__inside_begin(struct zero__inside *in, int thread)
{
    int before = atomic_exchange(&in->thread, thread ? thread : (int)gettid());

    atomic_fetch_add(&in->n, 1);
    return before;
}

void zero__inside_end(struct zero__inside *in, int before)
{
    atomic_store(&in->thread, before);
    atomic_fetch_add(&in->n, 1);
}

/* For how long a thread of this process has computed, in its own code; -1: not known. */
static int64_t computed_ns(int thread)
{
    unsigned long long ticks;
    char path[64], text[512];
    long per_second = sysconf(_SC_CLK_TCK);

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* a name may hold anything */
    if (!at || per_second <= 0 ||
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu", &ticks) != 1)
        return -1;
    return (int64_t)(ticks * (unsigned long long)(ZERO_SECOND / per_second));
}

void zero__inside_watch(struct zero__inside_watch *w, struct zero__inside *in, bool clean)
{
    *w = (struct zero__inside_watch){
        .in = in, .spin_ns = clean ? SPIN_CLEAN_NS : SPIN_NS, .computed_ns = -1};
}

bool zero__inside_is_stuck(void *watch)
{
    struct zero__inside_watch *w = watch;
    unsigned n = atomic_load(&w->in->n);
    int thread = atomic_load(&w->in->thread);
    int64_t computed = thread ? computed_ns(thread) : -1;

    if (computed >= 0 && n == w->n && w->computed_ns >= 0)
        return computed - w->computed_ns > w->spin_ns;
    w->n = n;
    w->computed_ns = computed;
    return false;
}
