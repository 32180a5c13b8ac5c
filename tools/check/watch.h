/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a rank of `zero check` whose plugin does not return from a case. */
#ifndef ZERO_TOOLS_CHECK_WATCH_H
#define ZERO_TOOLS_CHECK_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "job/job.h"

#define CHECK_WATCH_S 120 /* that a case may take, unless --timeout says otherwise */
/* Who only waits for another rank gives up sooner: a wait is CHECK_WAIT_NS, and after one that was
 * in vain a case waits no more. So who is late by this is late by itself. */
#define CHECK_WATCH_LEAST_S 30

/* What the process that starts the ranks knows of them, in memory that they share. */
struct check_board {
    atomic_uint number, told; /* the case that rank 0 is in, the last one with a verdict */
    atomic_int finished;      /* rank 0 has said all that there was to say */
    char name[160];           /* of the case */
};

struct check_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct zero__job *job;     /* of several ranks, whose rank 0 prints; or NULL */
    struct check_board *board; /* or NULL */
    int rank;
    uint64_t seconds;
    /* Of the case that runs. */
    char name[160]; /* empty: none does */
    unsigned number;
    int64_t deadline_ns;
    int lost; /* another rank is: this one has a moment to end by itself */
    int over, runs;
};

/* 0, or a negative errno and its sentence. */
int check_watch_start(struct check_watch *w, struct zero__job *job, int rank, uint64_t seconds);
void check_watch_stop(struct check_watch *w);
/* A case begins; name NULL: it is over. */
void check_watch_case(struct check_watch *w, const char *name, unsigned number);
/* A memory file for a board, inherited by ranks; -1 with a line on standard error. */
int check_board_create(void);
/* NULL: it cannot be mapped, and nobody looks. */
struct check_board *check_board_open(int fd);

#endif
