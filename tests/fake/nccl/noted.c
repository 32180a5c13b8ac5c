/* SPDX-License-Identifier: Apache-2.0 */
/* What a test asks for, and what is noted for it. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fake.h"

#define MOST_NAMES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int n_live, n_misused;
static char last_misuse[400];
static struct {
    int rank, result;
    char name[32];
    unsigned k, seen;
    bool later, lasts;
    atomic_bool done;
} failure;
static struct {
    char name[32];
    unsigned any, n[FAKE_RANKS]; /* any: on a rank that is not known, so on each */
} counted[MOST_NAMES];

void fake_misuse(const char *fmt, ...)
{
    va_list ap;

    pthread_mutex_lock(&lock);
    va_start(ap, fmt);
    vsnprintf(last_misuse, sizeof last_misuse, fmt, ap);
    va_end(ap);
    pthread_mutex_unlock(&lock);
    fprintf(stderr, "fake NCCL: %s\n", last_misuse);
    atomic_fetch_add(&n_misused, 1);
}

void fake_count(int n)
{
    atomic_fetch_add(&n_live, n);
}

static void fail_any(int rank, const char *name, unsigned k, int result, bool later, bool lasts)
{
    pthread_mutex_lock(&lock);
    snprintf(failure.name, sizeof failure.name, "%s", name);
    failure.rank = rank;
    failure.k = k;
    failure.seen = 0;
    failure.result = result;
    failure.later = later;
    failure.lasts = lasts;
    memset(counted, 0, sizeof counted);
    atomic_store(&failure.done, false);
    pthread_mutex_unlock(&lock);
}

static void fail(int rank, const char *name, unsigned k, int result, bool later)
{
    fail_any(rank, name, k, result, later, false);
}

static void fail_from(int rank, const char *name, unsigned k, int result)
{
    fail_any(rank, name, k, result, false, true);
}

static bool has_failed(void)
{
    return atomic_load(&failure.done);
}

/* Where calls of that name are counted; the lock is held. */
static int place(const char *name)
{
    int i = 0;

    while (i < MOST_NAMES - 1 && *counted[i].name && strcmp(counted[i].name, name) != 0)
        i++;
    return i;
}

static unsigned calls(int rank, const char *name)
{
    pthread_mutex_lock(&lock);
    int i = place(name);
    unsigned n = counted[i].any + counted[i].n[rank];
    pthread_mutex_unlock(&lock);
    return n;
}

static int live(void)
{
    return atomic_load(&n_live);
}

static int misused(char *text, size_t bytes)
{
    pthread_mutex_lock(&lock);
    snprintf(text, bytes, "%s", last_misuse);
    pthread_mutex_unlock(&lock);
    return atomic_exchange(&n_misused, 0);
}

FAKE_EXPORT const struct fake_api fake_nccl_api = {fake_use, fail, fail_from, has_failed,
                                                  calls,    live, misused};

/* Of a device's rank, or of any: NULL. */
int fake_call_of(const char *name, const struct CUctx_st *c, bool *later)
{
    int result = 0;

    *later = false;
    pthread_mutex_lock(&lock);
    int i = place(name);
    snprintf(counted[i].name, sizeof counted[i].name, "%s", name);
    ++*(c ? &counted[i].n[c->rank] : &counted[i].any);
    if (failure.k && (!c || c->rank == failure.rank) && strcmp(name, failure.name) == 0 &&
        (++failure.seen == failure.k || (failure.lasts && failure.seen > failure.k))) {
        result = failure.result;
        *later = failure.later;
        atomic_store(&failure.done, true);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int fake_call(const char *name, nccl_comm comm, bool *later)
{
    return fake_call_of(name, comm ? fake_comm_context(comm) : fake_here(), later);
}
