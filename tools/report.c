/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero report crash DIR`: the reports of a job's ranks side by side, and who is to blame. What the
 * job agreed on while it died goes first; else a rank that left no report, else the ranks that have
 * posted fewer collectives than others wait for.
 */
#include "config.h"

#include "report.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct job {
    struct report_rank *reports; /* by rank; rank -1: none */
    int ranks, n_reports;
};

static void help(void)
{
    fputs(
        "usage: zero report crash DIR\n\n"
        "Reads what the ranks of a failed job have written to ZERO_CRASH_DIR=DIR, prints how far\n"
        "each had come, and names the rank at which it began. The status is 0 when one is named,\n"
        "1 when the reports do not tell, 2 for bad use.\n",
        stdout);
}

static int by_rank(const void *a, const void *b)
{
    const struct report_rank *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* All readable reports of the folder, by rank. */
static bool job_read(const char *dir, struct job *job)
{
    char pattern[4096], why[4200];
    glob_t files;
    int status;

    *job = (struct job){0};
    snprintf(pattern, sizeof pattern, "%s/zero-crash-*.jsonl", dir);
    status = glob(pattern, GLOB_ERR, NULL, &files);
    if (status) {
        fprintf(stderr,
                "zero report: there are no reports (zero-crash-*.jsonl) in %s: set ZERO_CRASH_DIR "
                "for the job, to a folder that all ranks can write to\n",
                dir);
        return false;
    }
    job->reports = calloc(files.gl_pathc, sizeof *job->reports);
    for (size_t i = 0; job->reports && i < files.gl_pathc; i++) {
        if (report_read(files.gl_pathv[i], &job->reports[job->n_reports], why, sizeof why))
            job->n_reports++;
        else
            fprintf(stderr, "zero report: %s\n", why);
    }
    globfree(&files);
    if (!job->n_reports)
        return false;
    qsort(job->reports, (size_t)job->n_reports, sizeof *job->reports, by_rank);
    job->ranks = job->reports[0].ranks;
    for (int i = 1; i < job->n_reports; i++)
        if (job->reports[i].ranks != job->ranks ||
            job->reports[i].rank == job->reports[i - 1].rank) {
            fprintf(stderr,
                    "zero report: the reports in %s are of different jobs: those of rank %d and %d "
                    "do not fit together; empty the folder before a job\n",
                    dir, job->reports[i - 1].rank, job->reports[i].rank);
            return false;
        }
    return true;
}

static const struct report_rank *report_of(const struct job *job, int rank)
{
    for (int i = 0; i < job->n_reports; i++)
        if (job->reports[i].rank == rank)
            return &job->reports[i];
    return NULL;
}

static void print_ranks(const struct job *job)
{
    printf("%-5s %-20s %-8s %12s %12s  %s\n", "rank", "host", "queue", "collectives", "ops done",
           "under way");
    for (int rank = 0; rank < job->ranks; rank++) {
        const struct report_rank *r = report_of(job, rank);
        if (!r) {
            printf("%-5d %-20s no report: it was killed, or is stuck outside of the library\n",
                   rank, "?");
            continue;
        }
        for (unsigned i = 0; i < r->n_queues; i++) {
            const struct report_queue *q = &r->queues[i];
            printf("%-5d %-20.20s %-8s %12llu %12llu  %s", rank, r->host, q->name,
                   (unsigned long long)q->sequence, (unsigned long long)q->done, q->under_way);
            if (*q->under_way)
                printf(", for %.3f s", q->since_s);
            putchar('\n');
        }
        if (!r->n_queues)
            printf("%-5d %-20.20s no step has begun\n", rank, r->host);
    }
}

/* The job's record, where all reports have the same; -1: it names nobody. */
static int agreed(const struct job *job)
{
    const struct report_rank *first = &job->reports[0];
    bool same = true;

    for (int i = 1; i < job->n_reports; i++)
        same &= job->reports[i].culprit == first->culprit &&
                strcmp(job->reports[i].cause, first->cause) == 0;
    for (int i = 0; i < (same ? 1 : job->n_reports); i++) {
        const struct report_rank *r = &job->reports[i];
        char who[32] = "the job", by[32] = "";
        if (r->culprit >= 0)
            snprintf(who, sizeof who, "rank %d", r->culprit);
        if (!same)
            snprintf(by, sizeof by, "rank %d says: ", r->rank);
        printf("%s%s failed%s%s: %s (%s)\n", by, who, *r->op ? " in " : "", r->op, r->cause,
               strerror(-r->err));
    }
    return same ? first->culprit : -1;
}

/* A rank that has posted fewer collectives on a queue than the others; -1: not one alone. */
static int behind(const struct job *job, const char *queue)
{
    uint64_t most = 0, least = UINT64_MAX;
    int who = -1, n = 0;

    for (int i = 0; i < job->n_reports; i++)
        for (unsigned k = 0; k < job->reports[i].n_queues; k++) {
            const struct report_queue *q = &job->reports[i].queues[k];
            if (strcmp(q->name, queue) != 0)
                continue;
            most = q->sequence > most ? q->sequence : most;
            n = q->sequence < least ? 1 : n + (q->sequence == least);
            if (q->sequence < least) {
                least = q->sequence;
                who = job->reports[i].rank;
            }
        }
    return least < most && n == 1 ? who : -1;
}

static int blame(const struct job *job)
{
    int culprit = agreed(job), missing = -1, n_missing = 0;

    for (int rank = 0; rank < job->ranks; rank++)
        if (!report_of(job, rank)) {
            missing = rank;
            n_missing++;
        }
    if (culprit >= 0)
        return culprit;
    if (n_missing == 1) {
        printf("only rank %d left no report\n", missing);
        return missing;
    }
    for (unsigned k = 0; k < job->reports[0].n_queues; k++) {
        int rank = behind(job, job->reports[0].queues[k].name);
        if (rank >= 0) {
            printf("rank %d has posted fewer collectives on queue %s than all others\n", rank,
                   job->reports[0].queues[k].name);
            return rank;
        }
    }
    return -1;
}

static int report_crash(int argc, char **argv)
{
    struct job job;
    int culprit;

    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        help();
        return 0;
    }
    if (argc != 2 || argv[1][0] == '-') {
        fputs("zero report crash: give one folder; zero report crash --help tells more\n", stderr);
        return 2;
    }
    if (!job_read(argv[1], &job)) {
        free(job.reports);
        return 1;
    }
    printf("%d rank%s, %d report%s\n\n", job.ranks, job.ranks == 1 ? "" : "s", job.n_reports,
           job.n_reports == 1 ? "" : "s");
    print_ranks(&job);
    putchar('\n');
    culprit = blame(&job);
    if (culprit >= 0)
        printf("culprit: rank %d\n", culprit);
    else
        puts("culprit: the reports do not tell");
    free(job.reports);
    return culprit < 0;
}

static const struct zero__tool reports[] = {
    {"crash", report_crash, "DIR", "the last operations of a job that failed"},
};

int zero__tool_report(int argc, char **argv)
{
    return zero__tool_dispatch("zero report", reports, sizeof reports / sizeof reports[0], argc,
                               argv);
}
