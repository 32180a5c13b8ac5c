/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a failed job have written to ZERO_CRASH_DIR, read back. */
#ifndef ZERO_TOOLS_REPORT_H
#define ZERO_TOOLS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_QUEUES 16u
#define REPORT_TEXT 640u

/* A queue of a rank as it was when the rank gave up. */
struct report_queue {
    char name[32];
    uint64_t issued, started, done;
    uint64_t sequence;  /* collectives posted */
    char under_way[96]; /* the oldest op that had started and was not done, or "" */
    double since_s;     /* how long */
};

struct report_rank {
    int rank, ranks;
    long pid;
    char host[128];
    int err, culprit, reporter; /* of the job's record; culprit -1: nobody in particular */
    char op[96], cause[REPORT_TEXT], own[REPORT_TEXT];
    struct report_queue queues[REPORT_QUEUES];
    unsigned n_queues;
    unsigned n_ops; /* that are over */
};

/* Reads one file; false: `why` says what is wrong with it, and where. */
bool report_read(const char *path, struct report_rank *out, char *why, size_t room);

#endif
