/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of `zero bench step`: its command line, and the logs that zero-gpt2 writes on each rank. */
#ifndef ZERO_TOOLS_BENCH_STEP_LOG_H
#define ZERO_TOOLS_BENCH_STEP_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_KINDS 16u
#define STEP_MAX_ARGS 64

struct step_options {
    const char *preset, *data, *comm;
    char *args[STEP_MAX_ARGS + 1]; /* zero-gpt2 and its arguments */
    int n_args;
    uint64_t ranks, steps, warmup;
    bool json, bind, check, spoil;
    bool fresh;         /* weights are random, and come from no file */
    bool cache_allowed; /* what the tier moves need not reach a disk */
    char folder[256];
};

/* options.c: -1: go on; else the exit status, after the help or a sentence. */
int step_parse(struct step_options *o, int argc, char **argv);
/* An option for zero-gpt2; false after a sentence. */
bool step_pair_add(struct step_options *o, const char *name, const char *value);

/* The parts of a step, in seconds; STEP_TIME is the whole. */
enum step_part { STEP_TIME, STEP_COMPUTE, STEP_EXPOSED, STEP_OPTIMIZER, STEP_OTHER, N_STEP_PARTS };

/* What goes on beside computing; STEP_NORM: the exchange of norms, for which each update waits. */
enum step_sort { STEP_COLLECTIVES, STEP_NORM, STEP_DISK, N_STEP_SORTS };

struct step_figures {
    double parts[N_STEP_PARTS];
    double tokens_per_s;
    double exposed[STEP_KINDS]; /* of parts[STEP_EXPOSED], by the kind of op that was waited for */
    double disk_bytes;          /* both ways */
    /* In which an op of that sort was under way, and of that beside computing or kernels. */
    double busy[N_STEP_SORTS], beside[N_STEP_SORTS];
};

/* Of the whole job, so it is the same on all ranks; NAN: the log has no number. */
struct step_told {
    double loss, norm;
};

struct step_log {
    struct step_figures *steps; /* those after the warm-up */
    unsigned n_steps;
    struct step_told *told; /* of all steps, those of the warm-up as well */
    unsigned n_told;
    char weights[24]; /* their hash at the end */
    uint64_t vocab;
    uint64_t batch, seq; /* of a rank and micro-batch */
    double tokens; /* of a step, on all ranks */
    bool sound; /* losses and norms are numbers, no norm is 0; and what step_log_check() says */
    char kinds[STEP_KINDS][24];
    unsigned n_kinds;
    char comm[64], dtype[16];
    uint64_t parameters;
    int stage, ranks;
    int rank;
    double disk_moved;   /* in the whole run, but for reads of what was never written */
    bool disk_cached;    /* or some of it, through the page cache */
    double disk_limit_s; /* what these bytes take at the disk's measured speed; 0: not known */
    uint64_t updated;    /* elements of a rank's update, if AdamW with fp32 states and everything
                            on the device; else 0 */
    bool wide_grad;      /* it reads fp32 gradients */
};

/* Reads --json FILE and --ops FILE of a run; 0 or a negative errno with a sentence. */
int step_log_read(const char *json, const char *ops, unsigned warmup, struct step_log *out);
void step_log_free(struct step_log *log);

/*
 * check.c: *log is not sound if it says something else than that of rank 0, or if it is
 * that (root is NULL) and `fresh` weights know too much or too little, or learn nothing. Says why,
 * on stderr.
 */
void step_log_check(const struct step_log *root, bool fresh, struct step_log *log);

/* The shortest time of an optimizer; all 0: there is none that could be measured. */
struct step_limit {
    double seconds, move_s; /* of both passes, of the one over the states */
    const char *loop;
};

/*
 * limit.c: plain loops with the loads and stores of the log's update, on as many ranks
 * at once. 0 or a negative errno with a sentence.
 */
int step_limit(const struct step_options *o, const struct step_log *log, struct step_limit *out);
/* A rank of it; returns the exit status. */
int step_limit_rank(char **argv, int cores, int fd);

/* report.c: the table, or the records. */
int step_report(const struct step_options *o, const struct step_log *log,
                const struct step_limit *limit);
/* How long a step waits, in the middle; seconds. */
double step_log_exposed(const struct step_log *log);

#endif
