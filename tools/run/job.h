/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `zero run`: finding the program, binding, starting ranks, watching them. */
#ifndef ZERO_TOOLS_RUN_JOB_H
#define ZERO_TOOLS_RUN_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "output.h"

struct pollfd;

/*
 * What a rank of libzero may need when another one has failed: to hear of it (1 s), to let rank 0
 * decide whose fault it was (2 s), to write its report, and to end with a transport that does not
 * return (10 s); see core/job/internal.h and core/engine/create.c.
 */
#define RUN_GRACE_S 15

struct run_options {
    int n;
    bool bind;
    int prefix;     /* 1, 0, or -1: as the terminal suggests */
    double grace_s; /* for ranks to end by themselves */
    bool terse;     /* a rank that exits with a status has said why itself */
    char **argv;    /* PROG and its arguments, NULL at the end */
    char path[4096];
};

struct run_rank {
    pid_t pid;                       /* 0: has ended */
    bool stopped;                    /* by a signal, for as long */
    struct output_stream streams[2]; /* of its standard output and error; fd -1: no pipe */
};

struct run_job {
    const struct run_options *options;
    struct run_rank *ranks;
    int alive;
    int signal_fd;
    sigset_t mask; /* as it was before run */
    struct output_sink sinks[2];

    int failed; /* rank that failed first, -1: none */
    pid_t failed_pid;
    int failed_status;        /* of waitpid() */
    bool starting;            /* a signal that waits may be older than some ranks */
    int signal;               /* that ended the job from outside, 0: none */
    int64_t term_ns, kill_ns; /* when the ranks are told again; ZERO_NEVER: not */
    int64_t give_up_ns;       /* the kernel does not end what was killed */
    int64_t notice_ns;        /* when people are told that others have not ended */
    int64_t stopped_ns;       /* when those that are stopped are not waited for any longer */
    int64_t verdict_ns;       /* until then a later failure may be the cause of an earlier one */
    bool one_ended; /* with status 0, before any failed */
    bool orphans;
    bool said; /* who failed, or why it could not be started */
};

/* Starts the ranks and stays with them to the end; returns the exit status of the job, 2 where it
 * could not be started. */
int run_ranks(const struct run_options *o);

/*
 * Where PROG is: a path as it is, else in PATH and beside this program (names zero-...: there
 * first). 0, or -1 with a line on standard error.
 */
int run_find(const char *prog, char *path, size_t room);

/* CPU sets for n ranks, spread over the machine. NULL with a line on standard error. */
struct run_binding *run_binding_create(int n);
void run_binding_free(struct run_binding *binding);
/* In the child: binds the calling process. */
int run_bind(const struct run_binding *binding, int rank);

/* Starts all ranks. -1 with a line on standard error; those started are in job->ranks. */
int run_start(struct run_job *job);

/* Until all ranks have ended; returns the exit status of the job. */
int run_watch(struct run_job *job);

/* One sleep and what it brought; what poll() did. Both arrays: room for 3, and for two a rank. */
int run_turn(struct run_job *job, struct pollfd *polls, struct output_stream **whose, int ms);
/* Is a stream open, and is one not read since its sink is full? */
bool run_streams_open(const struct run_job *job, bool *held);
/* Closes them; how many bytes in them nobody will read. */
size_t run_streams_close(struct run_job *job);

/* Children of this process, orphans of ranks included: sends sig to all; their number. */
int run_signal_children(int sig);

#endif
