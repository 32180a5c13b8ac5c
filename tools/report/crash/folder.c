/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of crash reports, job by job: the folder may have served many jobs. Ranks that rank 0
 * let in know the number of their job. The others have tried to join a job of the same key and
 * model while its ranks waited, and so are counted with those that lived at the same time.
 */
#include "config.h"

#include "rank.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool overlap(double began_a, double end_a, double began_b, double end_b)
{
    return began_a <= end_b && began_b <= end_a;
}

/* Joined ones first, those of a job side by side; the others from the newest on. */
static int by_job(const void *a, const void *b)
{
    const struct report_head *x = &((const struct report_entry *)a)->head;
    const struct report_head *y = &((const struct report_entry *)b)->head;

    if (x->joined != y->joined)
        return x->joined ? -1 : 1;
    if (x->joined && strcmp(x->job, y->job) != 0)
        return strcmp(x->job, y->job);
    return (x->time_s < y->time_s) - (x->time_s > y->time_s);
}

static int newest(const void *a, const void *b)
{
    const struct report_job *x = a, *y = b;
    return (x->last_s < y->last_s) - (x->last_s > y->last_s);
}

static bool has_rank(const struct report_folder *f, int job, int rank)
{
    for (int i = 0; i < f->n_entries; i++)
        if (f->entries[i].job == job && f->entries[i].head.rank == rank)
            return true;
    return false;
}

static bool fits(const struct report_folder *f, int job, const struct report_head *h)
{
    const struct report_job *j = &f->jobs[job];

    if (h->joined)
        return strcmp(h->job, j->head->job) == 0;
    return h->ranks == j->head->ranks && strcmp(h->key, j->head->key) == 0 &&
           strcmp(h->model, j->head->model) == 0 &&
           overlap(h->began_s, h->time_s, j->began_s, j->last_s) && !has_rank(f, job, h->rank);
}

static void add(struct report_folder *f, int entry)
{
    const struct report_head *h = &f->entries[entry].head;
    int job = f->n_jobs - 1;

    /* A joined rank's job is the last one or a new one: they are sorted. */
    while (job >= 0 && !fits(f, job, h))
        job = h->joined ? -1 : job - 1;
    if (job < 0) {
        job = f->n_jobs++;
        f->jobs[job] = (struct report_job){h, h->began_s, h->time_s, h->time_s, 0};
    }
    struct report_job *j = &f->jobs[job];
    j->began_s = h->began_s < j->began_s ? h->began_s : j->began_s;
    j->first_s = h->time_s < j->first_s ? h->time_s : j->first_s;
    j->last_s = h->time_s > j->last_s ? h->time_s : j->last_s;
    j->n++;
    f->entries[entry].job = job;
}

/* The jobs' order changes: entries are told by the head that their job has. */
static void sort_jobs(struct report_folder *f, const struct report_head **heads)
{
    for (int i = 0; i < f->n_jobs; i++)
        heads[i] = f->jobs[i].head;
    qsort(f->jobs, (size_t)f->n_jobs, sizeof *f->jobs, newest);
    for (int i = 0; i < f->n_entries; i++) {
        const struct report_head *h = heads[f->entries[i].job];
        int job = 0;
        while (f->jobs[job].head != h)
            job++;
        f->entries[i].job = job;
    }
}

static bool sort_in(struct report_folder *f)
{
    const struct report_head **heads = calloc((size_t)f->n_entries, sizeof *heads);

    f->jobs = calloc((size_t)f->n_entries, sizeof *f->jobs);
    if (heads && f->jobs) {
        qsort(f->entries, (size_t)f->n_entries, sizeof *f->entries, by_job);
        for (int i = 0; i < f->n_entries; i++)
            f->entries[i].job = -1;
        for (int i = 0; i < f->n_entries; i++)
            add(f, i);
        sort_jobs(f, heads);
    }
    free(heads);
    if (!f->jobs || !heads)
        fputs("zero report: no memory for so many reports\n", stderr);
    return f->jobs && heads;
}

static int is_report(const struct dirent *e)
{
    return fnmatch("zero-crash-*.jsonl", e->d_name, 0) == 0;
}

static bool take_files(struct report_folder *f, const char *dir, struct dirent *const *files, int n)
{
    char path[4096], why[4200];

    f->entries = calloc((size_t)n, sizeof *f->entries);
    for (int i = 0; f->entries && i < n; i++) {
        struct report_entry *e = &f->entries[f->n_entries];
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name) >= sizeof path)
            fprintf(stderr, "zero report: %.200s…: the path is too long\n", dir);
        else if (!report_read_head(path, &e->head, why, sizeof why))
            fprintf(stderr, "zero report: %s\n", why);
        else if ((e->path = strdup(path)))
            f->n_entries++;
    }
    return f->n_entries > 0 && sort_in(f);
}

bool report_folder_read(const char *dir, struct report_folder *out)
{
    struct dirent **files = NULL;

    *out = (struct report_folder){0};
    int n = scandir(dir, &files, is_report, alphasort);
    if (n < 0)
        fprintf(stderr,
                "zero report: cannot read the folder %s: %s; give the one that ZERO_CRASH_DIR "
                "names for the job\n",
                dir, strerror(errno));
    else if (!n)
        fprintf(stderr,
                "zero report: there are no reports (zero-crash-*.jsonl) in %s: set ZERO_CRASH_DIR "
                "for the job, to a folder that all ranks can write to\n",
                dir);
    bool good = n > 0 && take_files(out, dir, files, n);
    for (int i = 0; i < n; i++)
        free(files[i]);
    free(files);
    return good;
}

void report_folder_free(struct report_folder *f)
{
    for (int i = 0; i < f->n_entries; i++)
        free(f->entries[i].path);
    free(f->entries);
    free(f->jobs);
}

bool report_folder_together(const struct report_folder *f, int a, int b)
{
    for (int i = 0; i < f->n_entries; i++) {
        const struct report_head *x = &f->entries[i].head;
        for (int k = 0; f->entries[i].job == a && k < f->n_entries; k++) {
            const struct report_head *y = &f->entries[k].head;
            if (f->entries[k].job == b && x->pid == y->pid && strcmp(x->host, y->host) == 0 &&
                overlap(x->began_s, x->time_s, y->began_s, y->time_s))
                return true;
        }
    }
    return false;
}

static int find(const struct report_folder *f, const char *number)
{
    int found = -1;

    for (int i = 0; i < f->n_jobs; i++) {
        if (strncmp(f->jobs[i].head->job, number, strlen(number)) != 0)
            continue;
        if (found >= 0) {
            fprintf(stderr, "zero report: several jobs begin with %s: %s and %s\n", number,
                    f->jobs[found].head->job, f->jobs[i].head->job);
            return -1;
        }
        found = i;
    }
    if (found < 0)
        fprintf(stderr, "zero report: no job's number begins with %s\n", number);
    return found;
}

int report_folder_choose(const struct report_folder *f, const char *number)
{
    int best = 0;

    if (number)
        return find(f, number);
    for (int i = 1; i < f->n_jobs; i++)
        if (f->jobs[i].first_s < f->jobs[best].first_s && report_folder_together(f, 0, i))
            best = i;
    return best;
}
