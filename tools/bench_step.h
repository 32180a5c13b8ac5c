/* SPDX-License-Identifier: Apache-2.0 */
/* The logs that zero-gpt2 writes on rank 0, for `zero bench step`. */
#ifndef ZERO_TOOLS_BENCH_STEP_H
#define ZERO_TOOLS_BENCH_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_KINDS 16u

/* The parts of a step, in seconds; STEP_TIME is the whole. */
enum step_part { STEP_TIME, STEP_COMPUTE, STEP_EXPOSED, STEP_OPTIMIZER, STEP_OTHER, N_STEP_PARTS };

struct step_figures {
    double parts[N_STEP_PARTS];
    double tokens_per_s;
    double exposed[STEP_KINDS]; /* of parts[STEP_EXPOSED], by the kind of op that was waited for */
};

struct step_log {
    struct step_figures *steps; /* those after the warm-up */
    unsigned n_steps;
    bool sound; /* every loss and every norm is a number, the norms are not 0 */
    char kinds[STEP_KINDS][24];
    unsigned n_kinds;
    char comm[64], dtype[16];
    uint64_t parameters;
    int stage, ranks;
};

/* Reads --json FILE and --ops FILE of a run; 0 or a negative errno with a sentence. */
int step_log_read(const char *json, const char *ops, unsigned warmup, struct step_log *out);
void step_log_free(struct step_log *log);

#endif
