/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of failed jobs have written to ZERO_CRASH_DIR, read back. */
#ifndef ZERO_TOOLS_REPORT_CRASH_RANK_H
#define ZERO_TOOLS_REPORT_CRASH_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_QUEUES 16u
#define REPORT_TEXT 640u
#define REPORT_COLLS_MOST 65536u /* of one rank */

/* Whose report it is. */
struct report_head {
    char job[17]; /* number of the job: hexadecimal digits; of this rank alone if it did not join */
    bool joined;
    int rank, ranks;
    long pid;
    double began_s, time_s; /* time of day: the runtime's beginning, and that of the report */
    char host[128], key[384], model[64];
};

/* A queue of a rank as it was when the rank gave up. */
struct report_queue {
    char name[32];
    uint64_t issued, started, done;
    uint64_t sequence;  /* collectives posted */
    char under_way[96]; /* the oldest op that had started and was not done, or "" */
    double since_s;     /* how long */
};

/* A collective that a rank posted, or was about to. */
struct report_coll {
    unsigned queue; /* index */
    uint64_t sequence;
    bool waiting;   /* not posted yet */
    char text[192]; /* all that must be the same on all ranks */
};

struct report_rank {
    struct report_head head;
    int err, culprit, reporter; /* of the job's record; culprit -1: nobody in particular */
    char op[96], cause[REPORT_TEXT], own[REPORT_TEXT];
    struct report_queue queues[REPORT_QUEUES];
    unsigned n_queues;
    unsigned n_ops; /* that are over */
    struct report_coll *colls; /* by queue, then by number */
    unsigned n_colls;
};

/*
 * Reads one file, or its first line; false: `why` says what is wrong with it, and where. What
 * report_read() gives is freed by report_rank_free().
 */
bool report_read(const char *path, struct report_rank *out, char *why, size_t room);
bool report_read_head(const char *path, struct report_head *out, char *why, size_t room);
void report_rank_free(struct report_rank *r);
/* NULL: the report has none of that number. */
const struct report_coll *report_coll_find(const struct report_rank *r, const char *queue,
                                           uint64_t sequence);

/* ---- differ.c */

/* Says where the reports, by rank, first differ; the rank that is alone, -1: they do not tell. */
int report_differ(const struct report_rank *all, int n, int ranks);

/* ---- folder.c: a folder's reports, job by job */

struct report_entry {
    struct report_head head;
    char *path;
    int job; /* index */
};

/* A job, or more exactly one of its runtimes: each model of a job has its own. */
struct report_job {
    const struct report_head *head;  /* of one of its reports */
    double began_s, first_s, last_s; /* of the reports: the first and the last one */
    int n;                           /* reports */
};

struct report_folder {
    struct report_entry *entries;
    int n_entries;
    struct report_job *jobs; /* the newest first */
    int n_jobs;
};

/* Says what is damaged, and why there is nothing to see (false). Free it in any case. */
bool report_folder_read(const char *dir, struct report_folder *out);
void report_folder_free(struct report_folder *f);
/*
 * The job to look at: that of the number that begins with `number`, else the newest one; where
 * several models of it failed, the one that failed first, since that ended the others. -1: none, or
 * several, and said so.
 */
int report_folder_choose(const struct report_folder *f, const char *number);
/* Were both jobs alive at the same time in one process? */
bool report_folder_together(const struct report_folder *f, int a, int b);

#endif
