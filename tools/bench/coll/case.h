/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of `zero bench coll` and `zero bench p2p`: a *case* is one operation at one size, measured
 * on a rank together with the plain loop that limits it.
 */
#ifndef ZERO_TOOLS_BENCH_COLL_CASE_H
#define ZERO_TOOLS_BENCH_COLL_CASE_H

#include <stdbool.h>
#include <stdio.h>

#include "bare.h"
#include "tools/bench/measure/board.h"
#include "tools/bench/measure/stats.h"
#include "tools/common/args.h"
#include "tools/common/comm.h"

enum coll_op {
    COLL_ALL_GATHER,
    COLL_REDUCE_SCATTER,
    COLL_ALL_REDUCE,
    COLL_BROADCAST,
    COLL_BARRIER,
    COLL_MAP,
    COLL_PING_PONG, /* broadcasts from rank 0 and back, half of the time of both */
    COLL_EXCHANGE,  /* all_gather in place beside a bare exchange; a case of it is an all_gather */
    N_COLL_OPS
};

struct coll_options {
    const char *bench; /* "coll" or "p2p" */
    const char *tool;  /* "bench coll" or "bench p2p", for messages */
    const char *comm;
    char comm_room[TOOL_COMM_NAME]; /* see tool_comm_probe() */
    int ranks, cores;
    enum coll_op ops[N_COLL_OPS];
    unsigned n_ops, n_sizes;
    const char *bytes; /* sizes as they were written */
    uint64_t factor, sizes[TOOL_MAX_SIZES];
    bool limit;
    uint32_t dtype;
    unsigned reps, warmup;
    bool in_place, cold, fresh, json, check, spoil, bind, is_rank;
    int board_fd; /* of the ranks' common board */
};

/* Percents that lie in huge pages, -1: not known, or there is none. */
struct coll_pages {
    int region, plain, board; /* the plugin's memory; the limit's, private and shared */
};

struct coll_case {
    struct tool_comm *b;
    const struct coll_options *o;
    enum coll_op op;
    const char *name;
    bool in_place;
    /* Beside it: has_bare is the same on all ranks, bare is rank 0's; why there is none, if so. */
    bool is_beside, has_bare;
    struct bench_bare *bare;
    char *bare_why;
    uint64_t wanted;       /* bytes of the full message as the user wrote them, */
    uint64_t bytes, count; /* and as they are; elements as in struct zero_coll */
    unsigned batch;        /* operations of one repetition, */
    unsigned n_warm;       /* after so many that are not timed */
    /* Slots lie one behind the other: a source, and `half` bytes later a destination. */
    uint64_t half;
    unsigned n_slots, turn;
    unsigned n_checks;   /* each has data of its own */
    uint64_t fresh_slot; /* where --fresh wrote last for an operation, and in which turn */
    unsigned fresh_turn;
    struct tool_region *region;
    char *plain; /* private memory for the limit; see limit.c */
    struct coll_pages pages;
    struct tool_region map_region;
    const char *map;
    struct bench_board *board;
};

/* Bytes that each rank allocates for the largest of all cases; 0: none. */
struct coll_memory {
    uint64_t region, plain; /* for all operations but barrier and map */
    uint64_t map;           /* this rank's part of what is mapped */
    uint64_t board;         /* in the common board */
};

/* When a rank began and ended a repetition, in nanoseconds. */
struct coll_moment {
    int64_t start, end;
};

/*
 * options.c. Reads the command line; *o holds the defaults. -1: go on; else the exit
 * status, after the help or a sentence.
 */
int coll_parse(struct coll_options *o, void (*help)(FILE *f), int argc, char **argv);

/* case.c */
const char *coll_name(enum coll_op op);
/* Is an exchange among the operations? */
bool coll_has_exchange(const struct coll_options *o);
/* The size that `bytes` is rounded to: as many elements for each rank; of map whole pages. */
uint64_t coll_bytes(const struct coll_options *o, enum coll_op op, uint64_t bytes);
void coll_memory(const struct coll_options *o, struct coll_memory *out);
/* Collective. The case lives as long as region, plain and board. */
int coll_case_open(struct coll_case *c);
void coll_case_close(struct coll_case *c);
/* One operation on the next slot. */
int coll_case_run(struct coll_case *c);
/* The same, with --fresh after this rank has written what it gives. */
int coll_case_once(struct coll_case *c);
/* Where the next slot begins, which is taken. */
uint64_t coll_next_slot(struct coll_case *c);
/* What --fresh fills a rank's source with: other bytes than another rank's, and than before. */
char coll_fresh_value(unsigned turn, int rank);
/* Where data of the slot 0 lies. */
char *coll_source(const struct coll_case *c);
char *coll_result(const struct coll_case *c);
/* Elements that this rank gives. */
uint64_t coll_n_sources(const struct coll_case *c);
/* A repetition: all ranks start together. */
int coll_sample(struct coll_case *c, struct coll_moment *m);
/* The bare exchange of as many bytes, as if rank 0 had done it; without one m is 0. */
int coll_sample_bare(struct coll_case *c, struct coll_moment *m);

/* limit.c */
bool coll_has_limit(const struct coll_options *o, enum coll_op op);
/* In how many ways, from the first one on, the limit can be reached; 0: there is no limit. */
unsigned coll_n_ways(const struct coll_case *c);
/* The bytes of a rank that it needs for `slots` bytes of the operation: private, and on the board.
 */
void coll_limit_memory(const struct coll_options *o, enum coll_op op, uint64_t slots,
                       uint64_t *plain, uint64_t *board);
/* Percent of the memory that the limit works on that lies in huge pages; -1: not known, or none. */
int coll_limit_huge(const struct coll_case *c);
int coll_sample_limit(struct coll_case *c, enum bench_way way, struct coll_moment *m);

/*
 * check.c: runs the case once on known data that no check before had, and once more in
 * another slot if there are several; *ok is the same on all ranks.
 */
int coll_check(struct coll_case *c, bool *ok);
/* After the repetitions with --fresh: did the last one bring what had been written before it? */
int coll_check_fresh(struct coll_case *c, bool *ok);

/* measure.c: everything about one case, and what rank 0 prints about it. */
/* *n_wide counts those of a wide spread. */
int coll_measure(struct coll_case *c, bool *ok, unsigned *n_wide);
/* The head of the table; bare_why is empty, or why there is no bare exchange. */
void coll_head(const struct coll_options *o, const struct coll_pages *pages, const char *bare_why);

/*
 * rank.c. Starts the ranks of what argv says, which *o is made of: checks comm plugin
 * and memory first. Returns the exit status.
 */
int coll_start(struct coll_options *o, int argc, char **argv);
/* A rank; returns its exit status. */
int coll_rank(const struct coll_options *o);

#endif
