/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `zero report crash DIR`: the reports of a job's ranks side by side, and who is to blame. What the
 * job agreed on while it died goes first; where ranks posted different collectives, it is the rank
 * that is alone with its own; else a rank that left no report, else one that has posted fewer
 * collectives than at least two others wait for.
 */
#include "config.h"

#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rank.h"
#include "tools/common/args.h"

#define OTHERS_MOST 12 /* jobs of the folder that are listed beside the one */

struct job {
    struct report_rank *reports; /* by rank */
    int ranks, n_reports;
};

static void help(FILE *f)
{
    fputs("usage: zero report crash [--job NUMBER] DIR\n\n"
          "Reads what the ranks of a failed job have written to ZERO_CRASH_DIR=DIR, prints\n"
          "how far each had come, and names the rank at which it began. A folder may serve\n"
          "many jobs: the newest one is shown, and the others are listed with their\n"
          "numbers; --job takes the first digits of one. The status is 0 when a rank is\n"
          "named, 1 when the reports do not tell, 2 for bad use.\n",
          f);
}

static int by_rank(const void *a, const void *b)
{
    const struct report_rank *x = a, *y = b;
    return (x->head.rank > y->head.rank) - (x->head.rank < y->head.rank);
}

/* All readable reports of one job of the folder, by rank. */
static bool job_read(const struct report_folder *f, int which, struct job *job)
{
    char why[4200];

    *job = (struct job){.ranks = f->jobs[which].head->ranks};
    job->reports = calloc((size_t)f->jobs[which].n, sizeof *job->reports);
    for (int i = 0; job->reports && i < f->n_entries; i++) {
        if (f->entries[i].job != which)
            continue;
        if (report_read(f->entries[i].path, &job->reports[job->n_reports], why, sizeof why))
            job->n_reports++;
        else
            fprintf(stderr, "zero report: %s\n", why);
    }
    if (!job->n_reports)
        return false;
    qsort(job->reports, (size_t)job->n_reports, sizeof *job->reports, by_rank);
    for (int i = 0; i < job->n_reports; i++)
        if (job->reports[i].head.ranks != job->ranks ||
            (i && job->reports[i].head.rank == job->reports[i - 1].head.rank)) {
            fprintf(stderr,
                    "zero report: the reports of job %s do not fit together: look at that of rank "
                    "%d\n",
                    f->jobs[which].head->job, job->reports[i].head.rank);
            return false;
        }
    return true;
}

static void print_job(const struct report_folder *f, int which, const char *before,
                      const char *after)
{
    const struct report_job *j = &f->jobs[which];
    time_t t = (time_t)j->first_s;
    char when[32] = "?";
    struct tm local;

    if (localtime_r(&t, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    printf("%s%s, %s, model %s%s%s, %d rank%s, %d report%s%s\n", before, j->head->job, when,
           j->head->model, *j->head->key ? ", " : "", j->head->key, j->head->ranks,
           j->head->ranks == 1 ? "" : "s", j->n, j->n == 1 ? "" : "s", after);
}

static void print_others(const struct report_folder *f, int which)
{
    int n = 0;

    if (f->n_jobs > 1)
        puts("other jobs in this folder (--job NUMBER shows one):");
    for (int i = 0; i < f->n_jobs; i++)
        if (i != which && n++ < OTHERS_MOST)
            print_job(f, i, "  ",
                      report_folder_together(f, which, i) ? ", in the same processes" : "");
    if (n > OTHERS_MOST)
        printf("  and %d older\n", n - OTHERS_MOST);
    if (n)
        putchar('\n');
}

static const struct report_rank *report_of(const struct job *job, int rank)
{
    for (int i = 0; i < job->n_reports; i++)
        if (job->reports[i].head.rank == rank)
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
            printf("%-5d %-20s no report: it was killed, ended without zero_destroy(), or is stuck "
                   "outside of the library\n", rank, "?");
            continue;
        }
        for (unsigned i = 0; i < r->n_queues; i++) {
            const struct report_queue *q = &r->queues[i];
            printf("%-5d %-20.20s %-8s %12llu %12llu  %s", rank, r->head.host, q->name,
                   (unsigned long long)q->sequence, (unsigned long long)q->done, q->under_way);
            if (*q->under_way)
                printf(", for %.3f s", q->since_s);
            putchar('\n');
        }
        if (!r->n_queues)
            printf("%-5d %-20.20s %s\n", rank, r->head.host,
                   r->head.joined ? "no step had begun" : "it had not joined the job");
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
            snprintf(by, sizeof by, "rank %d says: ", r->head.rank);
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
                who = job->reports[i].head.rank;
            }
        }
    return job->n_reports > 2 && least < most && n == 1 ? who : -1;
}

/* Did ranks post different collectives? Then who came how far tells nothing. */
static bool is_mismatch(const struct job *job)
{
    for (int i = 0; i < job->n_reports; i++)
        if (job->reports[i].err == -EPROTO)
            return true;
    return false;
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
    if (is_mismatch(job))
        return report_differ(job->reports, job->n_reports, job->ranks);
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

/* Shows one job of the folder. */
static int job_show(const struct report_folder *f, int which)
{
    struct job job;
    int culprit = -1;

    if (job_read(f, which, &job)) {
        print_job(f, which, "job ", "\n");
        print_ranks(&job);
        putchar('\n');
        print_others(f, which);
        culprit = blame(&job);
        if (culprit >= 0)
            printf("culprit: rank %d\n", culprit);
        else
            puts("culprit: the reports do not tell");
    }
    for (int i = 0; job.reports && i < job.n_reports; i++)
        report_rank_free(&job.reports[i]);
    free(job.reports);
    return culprit < 0;
}

int report_crash(int argc, char **argv)
{
    const char *number = NULL;
    const struct tool_arg args[] = {TOOL_ARG("job", TEXT, &number)};
    struct report_folder f;
    int status = tool_args("report crash", args, 1, TOOL_WORDS, help, argc, argv);

    if (status >= 0)
        return status;
    if (optind != argc - 1) {
        fputs("zero report crash: give one folder; zero report crash --help tells more\n", stderr);
        return 2;
    }
    if (number && !*number) {
        fputs("zero report crash: --job is \"\": the first digits of a job's number are wanted\n",
              stderr);
        return 2;
    }
    status = 1;
    if (report_folder_read(argv[optind], &f)) {
        int which = report_folder_choose(&f, number);
        if (which >= 0)
            status = job_show(&f, which);
    }
    report_folder_free(&f);
    return status;
}
