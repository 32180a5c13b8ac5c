/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a rank of `zero check` whose plugin does not return from a case. */
#ifndef ZERO_TOOLS_CHECK_WATCH_H
#define ZERO_TOOLS_CHECK_WATCH_H

#include <pthread.h>
#include <stdint.h>

#include "job/job.h"

#define CHECK_WATCH_S 120 /* that a case may take, unless --timeout says otherwise */

struct check_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct zero__job *job; /* of several ranks, whose rank 0 prints; or NULL */
    int rank;
    uint64_t seconds;
    /* Of the case that runs. */
    const char *name; /* NULL: none does */
    unsigned number;
    int64_t deadline_ns;
    int over, runs;
};

/* 0, or a negative errno and its sentence. */
int check_watch_start(struct check_watch *w, struct zero__job *job, int rank, uint64_t seconds);
void check_watch_stop(struct check_watch *w);
/* A case begins; name NULL: it is over. */
void check_watch_case(struct check_watch *w, const char *name, unsigned number);

#endif
