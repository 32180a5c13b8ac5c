/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rank is silent because its control thread gets no processor. The kernel tells it of
 * ranks whose process is known, those that rank 0 meets by its Unix socket, and rank 0 to them: a
 * thread that wants to run is runnable, and how long it has waited for that, and has run, is in its
 * schedstat. One that is stopped, or hangs in a call or at a lock, wants nothing; one that is in a
 * loop runs. Where the kernel does not count, or does not show it, nothing is known, and silence is
 * silence.
 *
 * Such a thread can wait for seconds beside others that compute: with automatic groups of
 * processes (sched_autogroup_enabled) a job that also spins on another processor has a small share
 * of the one where it sleeps.
 */
#include "config.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "job/internal.h"
#include "machine/line.h"

#define NAME_BYTES 16 /* the kernel's */

/* Ranks may be threads of one process, also of several jobs. */
static void name_of(const struct zero__job *job, int32_t rank, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "zero-%d-%04x", (int)(rank & 0xffff),
             (unsigned)(job->params.number & 0xffff));
}

void zero__starved_name(const struct zero__job *job)
{
    char name[NAME_BYTES];

    name_of(job, job->params.rank, name);
    pthread_setname_np(pthread_self(), name);
}

static bool is_named(const char *folder, const char *task, const char *name)
{
    char path[128], text[2 * NAME_BYTES];

    snprintf(path, sizeof path, "%.40s/%.20s/comm", folder, task);
    return zero__line_read(path, "", text, sizeof text) && strcmp(text, name) == 0;
}

static bool task_read(const char *folder, const char *task, struct zero__running *out)
{
    unsigned long long ran, waited;
    char path[128], text[64];

    snprintf(path, sizeof path, "%.40s/%.20s/status", folder, task);
    out->wants = zero__line_read(path, "State:", text, sizeof text) && strchr(text, 'R');
    snprintf(path, sizeof path, "%.40s/%.20s/schedstat", folder, task);
    if (!zero__line_read(path, "", text, sizeof text) ||
        sscanf(text, "%llu %llu", &ran, &waited) != 2 || !ran) /* 0: it does not count */
        return false;
    out->ran_ns = (int64_t)ran;
    out->waited_ns = (int64_t)waited;
    return true;
}

bool zero__starved_read(const struct zero__job *job, int32_t rank, struct zero__running *out)
{
    int64_t pid = job->peers[rank].link.pid;
    char folder[40], name[NAME_BYTES];
    const struct dirent *entry;
    bool found = false;

    name_of(job, rank, name);
    snprintf(folder, sizeof folder, "/proc/%lld/task", (long long)pid);
    DIR *tasks = pid > 0 ? opendir(folder) : NULL;
    while (tasks && !found && (entry = readdir(tasks)))
        found = entry->d_name[0] != '.' && is_named(folder, entry->d_name, name) &&
                task_read(folder, entry->d_name, out);
    if (tasks)
        closedir(tasks);
    return found;
}

void zero__starved_doubt(struct zero__job *job, int32_t rank)
{
    struct zero__peer *p = &job->peers[rank];

    p->is_doubted = zero__starved_read(job, rank, &p->doubted);
}

bool zero__starved(struct zero__job *job, int32_t rank, int64_t ns)
{
    struct zero__peer *p = &job->peers[rank];
    const struct zero__running then = p->doubted;
    bool was_known = p->is_doubted;

    zero__starved_doubt(job, rank);
    bool starves = was_known && p->is_doubted && p->doubted.ran_ns - then.ran_ns < ns / 2 &&
                   (p->doubted.wants || p->doubted.waited_ns - then.waited_ns > ns / 2);
    p->says_starved |= starves;
    return starves;
}

void zero__starved_tell(struct zero__job *job)
{
    for (int32_t r = 0; r < job->n_peers; r++) {
        struct zero__peer *p = &job->peers[r];
        if (!p->says_starved || p->was_starved)
            continue;
        p->was_starved = true;
        pthread_mutex_unlock(&job->lock); /* a sink may take its time */
        zero__log(job->params.log, ZERO_LOG_WARN, "job",
                  "rank %d is silent, since it gets no processor: other programs compute on those "
                  "of this host; it is waited for", (int)r);
        pthread_mutex_lock(&job->lock);
    }
}
