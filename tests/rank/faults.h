/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that each suffer one fault: what to do to which rank follows from a number, the seed, so
 * that a thousand of them can be run in parts, and each of them again. The ranks are processes that
 * train the toy model through the comm plugin `fault`; this program stands outside and kills what
 * does not end. With seeds from FAULTS_OUTSIDE on it also does the deed, by a signal at a moment
 * that nobody in the job knows, so that it may meet a rank anywhere inside of its transport.
 */
#ifndef ZERO_TESTS_FAULTS_H
#define ZERO_TESTS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FAULTS_RANKS 4
#define FAULTS_STEPS 6
#define FAULTS_END_MS 1000 /* for a rank that has heard of a signal from outside to end */
#define FAULTS_JOIN_S 3 /* for all ranks to come, where one is hit while they do */
#define FAULTS_OUTSIDE 100000 /* the first seed of a signal from outside */
#define FAULTS_HANG_MS 120000 /* then it counts as hanging, and is killed */

enum faults_phase { FAULTS_INIT, FAULTS_OPERATION, FAULTS_SHUTDOWN, FAULTS_PHASES };

/* One kind of fault. */
struct faults_kind {
    const char *action;
    enum faults_phase phase;
    const char *where;  /* the rest of its text in ZERO_FAULT: place, kind of collective */
    const char *stages; /* in which it can happen */
    uint32_t most;      /* it happens at the first to the most-th time */
    int limit_ms;       /* from the fault to the last rank's error, as promised; 0: the deadline */
    bool maps;          /* only where shards are mapped: over shm, with units large enough */
};

#define FAULTS_KINDS 30        /* of the plugin */
#define FAULTS_OUTSIDE_KINDS 6 /* that follow */
#define FAULTS_COMMS 5

/* A transport: a plugin, and a variable of the environment that says how it goes. */
struct faults_comm {
    const char *name, *plugin, *variable, *value; /* variable NULL: none */
};

extern const struct faults_kind faults_kinds[FAULTS_KINDS + FAULTS_OUTSIDE_KINDS];
extern const struct faults_comm faults_comms[FAULTS_COMMS];
extern const char *const faults_phase_names[FAULTS_PHASES];

struct faults_case {
    unsigned seed;
    int comm, kind; /* indices */
    int ranks, victim;
    bool large; /* messages of some units go in several pieces, by rendezvous */
    char stage[2], fault[96];
    uint32_t delay_us; /* of a signal, from the beginning of the phase on the victim */
};

void faults_draw(unsigned seed, struct faults_case *c);
/* The signal that comes from outside; 0: the plugin does it. */
int faults_signal(const struct faults_case *c);

struct faults_verdict {
    bool happened;
    bool detected; /* every other rank got an error; at shutdown: or ended well */
    bool named;    /* and it names the rank */
    bool hung;     /* had to be killed */
    bool wrong;    /* a rank went on with, or ended with, other numbers than without a fault */
    bool late;     /* later than promised */
    int ms;        /* from the fault to the last error, or end */
    int end_ms;    /* to the end of the last of the other processes */
    char why[600]; /* what is bad about it, or what the ranks said */
};

/* Of the jobs. A stopped rank must be missed before the operation that waits for it ends. */
struct faults_times {
    int timeout_s;         /* ZERO_TIMEOUT; late is a second more */
    const char *heartbeat; /* ZERO_HEARTBEAT, NULL: as it is by default */
};

/* faults_run.c */
void faults_run(const struct faults_case *c, const struct faults_times *times,
                struct faults_verdict *v);
bool faults_good(const struct faults_verdict *v);

#define FAULTS_TEXT 200

/*
 * faults_table.c: a line of a state file; false for a line that is none, or that tells of another
 * fault than the seed means now.
 */
void faults_print_line(FILE *f, const struct faults_case *c, const struct faults_verdict *v);
bool faults_read_line(const char *line, unsigned *seed, struct faults_verdict *v);
/*
 * Per transport and kind of fault: how many, how many of them among large messages, how many
 * detected and named, how fast, and when the last rank had ended.
 */
void faults_print_table(FILE *f, const struct faults_verdict *all, const bool *known, unsigned n);

/*
 * Of killed ranks but at the end, and from outside but while ranks meet: how long the others took,
 * so many percent of them at most.
 */
int faults_kill_ms(const struct faults_verdict *all, const bool *known, unsigned n,
                   unsigned percent);

#endif
